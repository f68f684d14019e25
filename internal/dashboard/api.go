package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"sluice/internal/activity"
	"sluice/internal/auth"
	"sluice/internal/fault"
	"sluice/internal/httpapi"
)

// serveAPI passes a request below /dashboard/v1 to the API, authenticated by the visitor's session
// instead of a key. Plan, limits and usage are the same as for a call with a key.
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
	// The API sees its own path, and no cookie: nothing below it needs the session.
	inner := r.Clone(r.Context())
	inner.URL.Path = strings.TrimPrefix(r.URL.Path, home)
	inner.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, home)
	inner.Header.Del("Cookie")
	x, ok := w.(httpapi.Exchange)
	if !ok {
		return errors.New("the page is not served by the API") // app puts it there
	}
	d.API().ServeAs(auth.Caller{Account: v.Account, KeyID: activity.PageKey}, x, inner)
	return nil
}
