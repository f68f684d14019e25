package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"sluice/internal/account/auth"
	"sluice/internal/api/httpapi"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/activity"
)

// serveAPI passes a request below /dashboard/v1 to the API, authenticated by the visitor's session
// instead of a key. Plan, limits and usage are the same as for a call with a key.
func (d *Dashboard) serveAPI(w http.ResponseWriter, r *http.Request) error {
	x, ok := w.(httpapi.Exchange)
	if !ok {
		return errors.New("the page is not served by the API") // app puts it there
	}
	v, err := d.visitor(w, r)
	if err == nil && v == nil {
		err = fault.New(fault.Unauthenticated, "You are not signed in.")
	}
	if err != nil {
		x.Fail(err) // whoever calls the API reads its errors, and no page
		return nil
	}
	// The API sees its own path, and no cookie: nothing below it needs the session.
	inner := r.Clone(r.Context())
	inner.URL.Path = strings.TrimPrefix(r.URL.Path, home)
	inner.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, home)
	inner.Header.Del("Cookie")
	d.API().ServeAs(auth.Caller{Account: v.Account, KeyID: activity.PageKey}, x, inner)
	return nil
}
