package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/api/httpserver"
	"sluice/internal/kit/fault"
	"sluice/internal/upstream/catalog"
)

// A page that passes a request to the API sends what a caller with a key would get: every kind of error has its
// status, its object and its headers, and the connection stays usable.
func TestErrorsOfPages(t *testing.T) {
	t.Parallel()
	failures := map[string]error{
		"no fault": errors.New("canary"),
		"final":    &fault.Fault{Kind: fault.RateLimited, Message: "Too large for the plan.", Final: true},
		"wait":     fault.New(fault.RateLimited, "Wait.").After(1500 * time.Millisecond),
		"param":    fault.New(fault.Invalid, "Wrong.").At("messages[2].content"),
		"panic":    nil, // Changes panics
	}
	for k := range fault.Forbidden + 1 {
		failures[fmt.Sprintf("kind %d", k)] = fault.New(k, "The message of %d.", k)
	}
	for _, lane := range []httpserver.Lane{httpserver.LaneDebug, httpserver.LaneOff} {
		t.Run(string(lane), func(t *testing.T) {
			t.Parallel()
			var fail error
			var page *API
			const path = "/v1/catalog/changes"
			w := newWorldOn(t, lane, &Options{
				Changes: func(context.Context, int64, int) ([]catalog.Change, bool, error) {
					if fail == nil {
						panic("canary")
					}
					if f, ok := errors.AsType[*fault.Fault](fail); ok {
						own := *f // a fault belongs to one request
						return nil, false, &own
					}
					return nil, false, fail
				},
				Pages: map[string]http.Handler{"/page/{rest...}": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					inner := r.Clone(r.Context())
					inner.URL.Path = strings.TrimPrefix(r.URL.Path, "/page")
					page.ServeAs(auth.Caller{Account: &account.Account{ID: "acct_1", Plan: account.Scale}, KeyID: "page"}, rw.(Exchange), inner)
				})},
			}, func(a *API) { page = a })
			for name, err := range failures {
				fail = err
				direct := w.send(t, "GET", path, w.good)
				conn := w.dial(t)
				in := bufio.NewReader(conn)
				write(t, conn, "GET", "/page"+path, "")
				got := read(t, in, "GET")
				checkFixed(t, name, got)
				if got.status != direct.status || got.body != direct.body || got.status < 400 {
					t.Errorf("%s = %d %s, want %d %s as with a key", name, got.status, got.body, direct.status, direct.body)
				}
				for _, h := range []string{"Content-Type", "Content-Length", "X-Should-Retry", "Retry-After", "Retry-After-Ms"} {
					if got.header.Get(h) != direct.header.Get(h) {
						t.Errorf("%s: %s = %q, want %q as with a key", name, h, got.header.Get(h), direct.header.Get(h))
					}
				}
				write(t, conn, "GET", "/healthz", "")
				if next := read(t, in, "GET"); next.status != 200 {
					t.Errorf("%s: the next request of the connection = %d, want 200", name, next.status)
				}
			}
		})
	}
}
