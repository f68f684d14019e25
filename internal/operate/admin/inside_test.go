package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/finder"
)

// beginnings finds one account by the beginning of its address, and nothing else.
type beginnings struct{ finder.Store }

func (beginnings) AccountsByEmail(_ context.Context, prefix, _ string, _ int) ([]finder.Match, error) {
	if prefix != "ana" && prefix != "ana@a.example" {
		return nil, nil
	}
	return []finder.Match{{Kind: finder.ByEmail, Account: &account.Account{ID: "acct_0", Email: "ana@a.example"}}}, nil
}

func (beginnings) AccountsByLastFour(context.Context, string, string, int) ([]finder.Match, error) {
	return nil, nil
}

func (beginnings) AccountsByRequest(context.Context, string, int) ([]finder.Match, error) {
	return nil, nil
}

// A term is also looked for inside addresses, page by page, after those that begin with it.
func TestSearchInside(t *testing.T) {
	t.Parallel()
	b, _ := newBackend(t)
	b.Finder = finder.New(beginnings{}, nil)
	b.Everyone = func(yield func(*account.Account)) {
		for i, email := range []string{"joana@a.example", "ana@a.example", "bob@b.example", "diana@a.example", "susana@a.example"} {
			yield(&account.Account{ID: fmt.Sprint("acct_", i), Email: email})
		}
	}
	service := admin.NewService(b, nil, slog.New(slog.DiscardHandler))
	for term, want := range map[string]string{
		"ana": "ana diana joana susana ", "ANA@A.": "diana joana susana ", "ana@a.example": "ana ", "b.example": "bob ", "na": "", "nobody": "",
	} {
		var got string
		in := admin.SearchQuery{Term: term, Cursor: admin.Cursor{Limit: 2}}
		for {
			page, err := admin.Ops().AccountSearch.Run(t.Context(), service, admin.Caller{}, in)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range page.Data {
				name, _, _ := strings.Cut(m.Email, "@")
				got += name + " "
			}
			if page.Next == "" {
				break
			}
			in.After = page.Next
		}
		if got != want {
			t.Errorf("a search for %q finds %q, want %q", term, got, want)
		}
	}
}
