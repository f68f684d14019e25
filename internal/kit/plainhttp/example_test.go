package plainhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"sluice/internal/kit/plainhttp"
)

// A Transport stands in for http.Transport where the server is called without TLS.
func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "pong")
	}))
	defer server.Close()

	transport := plainhttp.New(nil)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	reply, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reply.Body.Close()
	body, _ := io.ReadAll(reply.Body)
	fmt.Println(reply.StatusCode, string(body))
	// Output: 200 pong
}

// Canceling the context closes the connection. The error is the cause of the cancellation.
func ExampleTransport_RoundTrip() {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done() // the closed connection ends it
	}))
	defer server.Close()

	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		<-asked
		cancel(errors.New("the caller hung up"))
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = plainhttp.New(nil).RoundTrip(req)
	fmt.Println(err)
	// Output: the caller hung up
}
