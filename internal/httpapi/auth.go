package httpapi

import "net/http"

// authenticate lets only known callers pass to /v1. It reads headers alone and stands before routing,
// so a missing key is told before a wrong path, method or body.
func (a *API) authenticate(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if !isAPI(r) {
			return next(x, r)
		}
		caller, err := a.auth.Authenticate(r.Header["Authorization"])
		if err != nil {
			x.Header().Set("WWW-Authenticate", "Bearer")
			return err
		}
		x.caller = caller
		x.event.AccountID, x.event.KeyID = caller.Account.ID, caller.KeyID
		return next(x, r)
	}
}
