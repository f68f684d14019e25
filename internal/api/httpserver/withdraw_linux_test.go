package httpserver_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"testing"

	"sluice/internal/api/httpserver"
)

// While a listener is withdrawn the system refuses connections and idle ones have ended, as if the server were not
// there. Then everything is as before, on the same port, as often as need be; and a stop ends it in either state.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	for _, mode := range []httpserver.Lane{httpserver.LaneOff, httpserver.LaneOn} {
		for _, endsAway := range []bool{false, true} {
			t.Run(string(mode), func(t *testing.T) {
				t.Parallel()
				inner, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				l := httpserver.NewListener(inner, httpserver.ListenerOptions{Log: slog.New(slog.DiscardHandler)})
				held, release := make(chan struct{}, 1), make(chan struct{})
				s := httpserver.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/held" {
						held <- struct{}{}
						<-release
					}
					_, _ = io.WriteString(w, "hello")
				}), l, mode)
				ended := make(chan error, 1)
				go func() { ended <- s.Serve() }()
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				get := func(path string) error {
					resp, err := client.Get("http://" + inner.Addr().String() + path)
					if err != nil {
						return err
					}
					defer resp.Body.Close()
					_, err = io.ReadAll(resp.Body)
					return err
				}
				for i := range 3 {
					if err := get("/"); err != nil {
						t.Fatalf("a request before withdrawal %d = %v", i, err)
					}
					if i > 0 {
						if !s.Withdraw() || s.Withdraw() {
							t.Fatal("Withdraw must work, and only once")
						}
						if err := get("/"); !errors.Is(err, syscall.ECONNREFUSED) {
							t.Errorf("a request while the listener is withdrawn = %v, want a refused connection", err)
						}
						if err := s.Return(); err != nil {
							t.Fatal(err)
						}
						continue
					}
					// A call that runs is not interrupted.
					running := make(chan error, 1)
					go func() { running <- get("/held") }()
					<-held
					s.Withdraw()
					close(release)
					if err := <-running; err != nil {
						t.Errorf("a request that ran when the listener was withdrawn = %v", err)
					}
					if err := s.Return(); err != nil {
						t.Fatal(err)
					}
				}
				if endsAway {
					s.Withdraw()
				}
				if err := l.Finish(); err != nil {
					t.Errorf("Finish = %v", err)
				}
				if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve = %v, want that it was closed", err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
