package config

import (
	"net/mail"
)

var signupModes = []string{"", "open", "invite", "closed"}

func (r *record) checkPages(c *Config) {
	r.checkOneOf("signup", c.Signup, "sign-up mode", signupModes)
	if c.SMTP.Server != "" {
		r.checkAddress("smtp.server", c.SMTP.Server)
		if _, err := mail.ParseAddress(c.SMTP.From); err != nil {
			r.failAt(r.placeOf("smtp.server"), "smtp.from", "must be the sender of mails, such as Sluice <no-reply@example.com>")
		}
	}
	if c.Support.Email != "" {
		if a, err := mail.ParseAddress(c.Support.Email); err != nil || a.Address != c.Support.Email {
			r.fail("support.email", "must be an e-mail address, such as support@example.com")
		}
	}
	if c.Support.URL != "" {
		r.checkBase("support.url", c.Support.URL)
	}
	r.checkSite(&c.Site)
	if c.OIDC.Issuer != "" {
		r.checkBase("oidc.issuer", c.OIDC.Issuer)
		if c.OIDC.ClientID == "" {
			r.failAt(r.placeOf("oidc.issuer"), "oidc.client_id", "is required with oidc.issuer")
		}
	}
}

// SignupMode returns who may create an account: the configured mode, or else open on loopback
// and closed otherwise. local reports whether all requests so far came from this machine:
// behind a proxy, a loopback address proves nothing.
func (c *Config) SignupMode(local bool) string {
	switch {
	case c.Signup != "":
		return c.Signup
	case local && c.private():
		return "open"
	}
	return "closed"
}

// ImpliedDoors names what is open only because the configuration does not say otherwise and only this machine calls:
// sign-up, and payment with the test card.
func (c *Config) ImpliedDoors() (open []string) {
	if c.Signup == "" && c.SignupMode(true) == "open" {
		open = append(open, "sign-up")
	}
	if c.Billing.Processor == "" && c.PaymentProcessor(true) == "testpay" {
		open = append(open, "the test card")
	}
	return open
}
