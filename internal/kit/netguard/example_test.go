package netguard_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"sluice/internal/kit/netguard"
)

// CheckHost judges a host without looking its name up, in whatever spelling.
func ExampleCheckHost() {
	for _, host := range []string{"images.example.com", "127.0.0.1", "2130706433", "[::ffff:10.0.0.7]", "intranet"} {
		fmt.Println(host, netguard.CheckHost(host) == nil)
	}
	// Output:
	// images.example.com true
	// 127.0.0.1 false
	// 2130706433 false
	// [::ffff:10.0.0.7] false
	// intranet false
}

// A guarded client refuses addresses that are not public, when it dials them.
func ExampleGuard_Client() {
	private := httptest.NewServer(http.NotFoundHandler()) // on 127.0.0.1
	defer private.Close()
	address, _ := url.Parse(private.URL)

	guard := netguard.New(nil)
	defer guard.Close()
	_, err := guard.Client(address, nil).Get(private.URL)
	fmt.Println("refused:", errors.Is(err, netguard.ErrRefused))

	allowing := netguard.New(&netguard.Options{Allow: []string{"127.0.0.1"}})
	defer allowing.Close()
	reply, err := allowing.Client(address, nil).Get(private.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reply.Body.Close()
	fmt.Println("allowed:", reply.StatusCode)
	// Output:
	// refused: true
	// allowed: 404
}
