package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/doctor"
)

// through sends a request as a proxy on this machine would, or as a page under a rebound name.
func (n *node) through(target, host string, header ...string) {
	n.t.Helper()
	r, err := http.NewRequest("GET", n.scheme+n.Addr()+target, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := n.client.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	resp.Body.Close()
}

const noNewAccounts = "Sign-up is closed"

// signUp is what a stranger's sign-up is answered with.
func (n *node) signUp(email string) string {
	n.t.Helper()
	return n.person().post("/signup", "email", email, "password", pagePassword).body
}

// TestDoorsClose is a server on loopback that somebody puts a proxy in front of.
func TestDoorsClose(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]struct {
		target, host string
		header       []string
	}{
		"another host":     {target: "/", host: "gw.example.com"},
		"a forwarded page": {target: "/signup", header: []string{"X-Forwarded-For: 192.0.2.1"}},
		"the API":          {target: "/v1/models", header: []string{"Forwarded: for=192.0.2.1"}},
		"nothing there":    {target: "/nothing", header: []string{"Via: 1.1 proxy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			n := s.start(t)
			created := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com"})
			n.through("/v1/models", "localhost:8080") // as local as it gets
			n.through("/", "app.localhost")
			if body := n.signUp("bob@example.com"); strings.Contains(body, noNewAccounts) || !n.Billing().Test() {
				t.Fatal("sign-up or the test card is closed before any foreign request: the test tests nothing")
			}
			payment, err := n.Billing().Subscribe(t.Context(), "customer", created.ID, account.Scale)
			if err != nil {
				t.Fatal(err)
			}

			n.through(first.target, first.host, first.header...)
			closed := func(when string, n *node) {
				t.Helper()
				if body := n.signUp("eve@example.com"); !strings.Contains(body, noNewAccounts) {
					t.Errorf("%s: sign-up is open", when)
				}
				if n.Billing().Sells() || n.Billing().Test() {
					t.Errorf("%s: plans are sold for a test card", when)
				}
				if _, err := n.Billing().Subscribe(t.Context(), "customer", created.ID, account.Premium); err == nil {
					t.Errorf("%s: Subscribe = nil, want an error", when)
				}
				// Nor is a payment finished that was begun before.
				if _, _, err := n.Billing().PayTest(t.Context(), created.ID, payment.ID, "4242424242424242"); !fault.Is(err, fault.NotFound) {
					t.Errorf("%s: PayTest = %v, want not found", when, err)
				}
			}
			closed("after it", n)
			log := n.log.String()
			const warning = "a request came through a proxy or for another host"
			if strings.Count(log, warning) != 1 || !strings.Contains(log, "set public_url, signup and billing.processor") {
				t.Errorf("the log has %d warnings that say what to set, want 1", strings.Count(log, warning))
			}
			n.stop()
			n = s.start(t)
			closed("after a restart", n) // though every request of this process is a local one
			n.stop()

			findings := app.Examine(t.Context(), s.config(t))
			if want := (expect{"doors", doctor.StateWarning, "sign-up and the test card: closed, because a request came through a proxy", "Set public_url, signup and billing.processor"}); !want.in(findings) {
				t.Errorf("Examine did not find %+v, but %+v", want, findings)
			}
			if err := os.Remove(filepath.Join(s.data(), "proxied")); err != nil {
				t.Fatal(err)
			}
			n = s.start(t)
			if !n.Billing().Test() {
				t.Error("the test card is closed after the operator began anew")
			}
		})
	}
}

// What the operator has configured stays as it is.
func TestDoorsConfigured(t *testing.T) {
	t.Parallel()
	n := newSite(t, "signup: open\nbilling: {processor: testpay}\n").start(t)
	n.through("/", "gw.example.com", "X-Forwarded-For: 192.0.2.1")
	if body := n.signUp("bob@example.com"); strings.Contains(body, noNewAccounts) || !n.Billing().Test() {
		t.Error("sign-up or the test card is closed, though configured to be open")
	}
	if strings.Contains(n.log.String(), "came through a proxy") {
		t.Error("the log warns of what is configured")
	}
}
