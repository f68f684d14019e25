package httpapi

import (
	"net/http"

	"sluice/internal/auth"
)

// authenticate lets only known callers pass to /v1. It reads headers alone and stands before routing,
// so a missing key is told before a wrong path, method or body.
func (a *API) authenticate(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if !isAPI(r) {
			return next(x, r)
		}
		caller, err := a.identify(x, r)
		if err != nil {
			x.Header().Set("WWW-Authenticate", "Bearer")
			return err
		}
		x.caller = caller
		x.event.AccountID, x.event.KeyID = caller.Account.ID, caller.KeyID
		return next(x, r)
	}
}

// identify finds the caller by the key, unless ServeAs brought them along.
func (a *API) identify(x *exchange, r *http.Request) (auth.Caller, error) {
	if x.caller.Account != nil {
		return x.caller, auth.Admit(x.caller.Account)
	}
	return a.auth.Authenticate(r.Header["Authorization"])
}
