package httpapi

import (
	"errors"
	"net/http"

	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
)

// authenticate refuses requests to /v1 without a valid key. It reads only headers and runs
// before routing, so a missing key is reported before a wrong path, method or body.
func (a *API) authenticate(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if !isAPI(r) {
			return next(x, r)
		}
		caller, err := a.identify(x, r)
		if err == nil && !isAdmitted(r) {
			caller, err = a.auth.Confirm(caller)
		}
		if err != nil {
			return x.unknown(err)
		}
		x.caller, x.body.Account = caller, caller.Account.ID
		x.event.AccountID, x.event.KeyID = caller.Account.ID, caller.KeyID
		return next(x, r)
	}
}

// unknown returns the error of a request whose caller is not known, or not let in.
func (x *exchange) unknown(err error) error {
	x.Header().Set("WWW-Authenticate", "Bearer")
	return err
}

// isAdmitted reports whether admission decides on the request. It then finds out by itself whether
// another node has changed the account, with the round trip that it needs anyway.
func isAdmitted(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path != mcpPath
}

// current calls decide, which admission decides on, and calls it again if another node has changed the
// caller's account meanwhile, with the account as it is then. decide must not have replied if it
// returns auth.ErrChanged.
func (a *API) current(x *exchange, decide func() error) error {
	for range 3 {
		err := decide()
		if !errors.Is(err, auth.ErrChanged) {
			return err
		}
		if x.caller, err = a.auth.Again(x.caller); err != nil {
			return x.unknown(err)
		}
	}
	return fault.New(fault.Unavailable, "This account is being changed. Try again shortly.")
}

// identify returns the caller of the key, or the one that ServeAs has set.
func (a *API) identify(x *exchange, r *http.Request) (auth.Caller, error) {
	if x.caller.Account != nil {
		return x.caller, auth.Admit(x.caller.Account)
	}
	given, err := keys(r)
	if err != nil {
		return auth.Caller{}, err
	}
	return a.auth.Authenticate(r.Context(), given, x.event.Remote)
}
