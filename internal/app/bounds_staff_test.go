package app_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
)

// staffTries are the bounds of staff and the admin API.
var staffTries = map[string]try{
	"body of a request to the admin API": func(t *testing.T, s *stage, b bound) {
		n := s.node(t)
		boss, _ := n.staffMember(s.email())
		token := n.staffToken(boss.email, admin.AccountsWrite)
		customer := s.account(t)
		note := func(size int64) int {
			body := fmt.Sprintf(`{"note":"x"%s}`, strings.Repeat(" ", int(size)-len(`{"note":"x"}`)))
			return n.bearer("POST", "/admin/v1/accounts/"+customer.ID+"/notes", token, body).status
		}
		if got := note(b.n); got != 200 {
			t.Errorf("a body of %d bytes = %d, want 200", b.n, got)
		}
		if got := note(b.n + 1); got != b.status(t) {
			t.Errorf("a body of %d bytes = %d, want %d", b.n+1, got, b.status(t))
		}
	},
	"logo of the pages":                      triedBy("app/config", "TestSite", "the configuration is refused"),
	"days of health that are kept":           triedBy("operate/overview", "TestRecord", "the oldest go"),
	"models with figures of health":          triedBy("operate/overview", "TestMostModels", "no figures"),
	"models that are compared on a page":     triedBy("web/front", "TestCompare", "left out"),
	"models on a page of the list":           triedBy("web/front", "TestListPages", "on the next page"),
	"calls of a workload that a page counts": triedBy("web/front", "TestWorkloadOf", "that many count"),
	"tokens of a call of a workload":         triedBy("web/front", "TestWorkloadOf", "that many count"),
	"page of a list of the admin API":        triedBy("operate/admin", "TestLists", "1,000 are returned"),
	"reason or note in the audit log": func(t *testing.T, s *stage, b bound) {
		customer := s.account(t)
		for size, want := range map[int64]bool{b.n: true, b.n + 1: false} {
			text := strings.Repeat("r", int(size))
			for name, in := range map[string]any{
				"account.note":       admin.Note{Actor: "t", Ref: customer.ID, Note: text},
				"account.set-plan":   admin.Target{Actor: "t", Ref: customer.ID, Plan: "scale", Reason: text},
				"account.set-limits": admin.NewLimits{Actor: "t", Ref: customer.ID, Clear: true, Reason: text},
			} {
				err := s.node(t).call(name, in, &admin.Account{})
				if want != (err == nil) || err != nil && fault.From(err).Kind.Status() != b.status(t) {
					t.Errorf("%s with %d bytes = %v", name, size, err)
				}
			}
		}
	},
	"aliases of an account": func(t *testing.T, s *stage, b bound) {
		customer := s.account(t)
		set := func(n int64) error {
			names := map[string]string{}
			for i := range n {
				names[fmt.Sprint("n", i)] = "sandbox/small"
			}
			return s.node(t).call("account.set-aliases", admin.NewAliases{Actor: "t", Ref: customer.ID, Clear: true, Set: names, Reason: "r"}, &admin.Account{})
		}
		if err := set(b.n); err != nil {
			t.Errorf("%d aliases = %v", b.n, err)
		}
		if err := set(b.n + 1); err == nil || fault.From(err).Kind.Status() != b.status(t) {
			t.Errorf("%d aliases = %v, want %d", b.n+1, err, b.status(t))
		}
	},
	"staff tokens of a member":        triedBy("account/staff", "TestTokensPerMember", "409"),
	"days that a staff token is good": triedBy("account/staff", "TestNewToken", "400"),
	"name of a staff token":           triedBy("account/staff", "TestNewToken", "400"),
	"age of a code in the console":    triedBy("account/staff", "TestStanding", "another code is needed"),
	"credit of an account, in cents":  triedBy("account/billing", "TestCredit", "400"),
}
