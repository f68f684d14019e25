package dashboard

import (
	"net/http"
	"strings"

	"sluice/internal/auth"
	"sluice/internal/fault"
)

// serveAPI hands a request below /dashboard/v1 to the API, with the visitor's session in the place of a key. The
// account, its plan, its limits and its books are those of any other call.
func (d *Dashboard) serveAPI(w http.ResponseWriter, r *http.Request) error {
	v, err := d.visitor(w, r)
	if err != nil {
		return err
	}
	if v == nil {
		f := fault.New(fault.Unauthenticated, "You are not signed in.")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Kind.Status())
		_, _ = w.Write(f.Object().Body()) // whoever left needs no reply
		return nil
	}
	inner := r.Clone(r.Context())
	inner.URL.Path = strings.TrimPrefix(r.URL.Path, home)
	inner.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, home)
	inner.Header.Del("Cookie")
	d.API().ServeAs(auth.Caller{Account: v.Account, KeyID: pageKey}, w, inner)
	return nil
}
