package httpapi

import (
	"net/http"

	"sluice/internal/auth"
)

// authenticate refuses requests to /v1 without a valid key. It reads only headers and runs
// before routing, so a missing key is reported before a wrong path, method or body.
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

// identify returns the caller of the key, or the one that ServeAs has set.
func (a *API) identify(x *exchange, r *http.Request) (auth.Caller, error) {
	if x.caller.Account != nil {
		return x.caller, auth.Admit(x.caller.Account)
	}
	return a.auth.Authenticate(r.Header["Authorization"])
}
