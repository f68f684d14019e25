package finder_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/finder"
)

// asked is a store that notes its queries. It has n accounts for each, and the requests that flush has moved.
type asked struct {
	finder.Store
	queries []string
	n       int
	flushed bool
}

func (a *asked) list(limit int, query string) ([]finder.Match, error) {
	a.queries = append(a.queries, query)
	var out []finder.Match
	for i := range min(a.n, limit) {
		out = append(out, finder.Match{Account: &account.Account{Email: fmt.Sprintf("user-%02d", i)}, Key: finder.Key{ID: fmt.Sprintf("key_%02d", i)}})
	}
	return out, nil
}

func (a *asked) AccountsByEmail(_ context.Context, prefix, after string, limit int) ([]finder.Match, error) {
	return a.list(limit, "email "+prefix+" after "+after)
}

func (a *asked) AccountsByID(_ context.Context, id string) ([]finder.Match, error) {
	return a.list(1, "id "+id)
}

func (a *asked) AccountsByLastFour(_ context.Context, four, after string, limit int) ([]finder.Match, error) {
	return a.list(limit, "four "+four+" after "+after)
}

func (a *asked) AccountsByRequest(_ context.Context, id string, limit int) ([]finder.Match, error) {
	return a.list(limit, "request "+id)
}

func (a *asked) Requests(_ context.Context, id string, _ int) ([]usage.Settlement, error) {
	if !a.flushed {
		return nil, nil
	}
	return []usage.Settlement{{ID: id}}, nil
}

func (a *asked) RefusalsOf(context.Context, string, int) ([]refusal.Call, error) { return nil, nil }

// A term leads to one query for each kind of thing that it may be.
func TestSearch(t *testing.T) {
	t.Parallel()
	const id = "6701a3f24b1c9d0e8f7a6b5c4d3e2f10"
	for term, want := range map[string]string{
		"ana@example.com":   "email ana@example.com after , request ana@example.com",
		" Ana@Example.COM ": "email ana@example.com after , request Ana@Example.COM",
		"anna":              "email anna after , four anna after , request anna",
		"aB3x":              "email ab3x after , four aB3x after , request aB3x",
		"an-a":              "email an-a after , request an-a",
		"acct_x":            "id acct_x",
		"key_x":             "id key_x",
		id:                  "request " + id,
		"chatcmpl-" + id:    "request " + id,
		"resp_team@e":       "email resp_team@e after , request resp_team@e",
		"resp_" + id:        "request " + id,
		"msg_" + id:         "request " + id,
		"chatcmpl-proxy-7":  "request proxy-7",
	} {
		s := &asked{n: 1}
		if _, next, err := finder.New(s, nil).Search(t.Context(), term, "", 10); err != nil || next != "" || strings.Join(s.queries, ", ") != want {
			t.Errorf("Search(%q) asks %q and returns %q, %v, want %q", term, s.queries, next, err, want)
		}
	}
	for _, term := range []string{"", "  ", strings.Repeat("x", finder.MaxTerm+1)} {
		if _, _, err := finder.New(&asked{}, nil).Search(t.Context(), term, "", 10); !fault.Is(err, fault.Invalid) {
			t.Errorf("Search(%.10q…) = %v, want it invalid", term, err)
		}
	}
}

// A page continues with the kind of match that it ended with.
func TestSearchPages(t *testing.T) {
	t.Parallel()
	s := &asked{n: 30}
	f := finder.New(s, nil)
	found, next, err := f.Search(t.Context(), "user", "", 10)
	if err != nil || len(found) != 10+10+20 || next != "email:user-09" {
		t.Fatalf("Search = %d matches, next %q, %v, want 10 by e-mail, 10 by last four, 20 by request, and more after user-09", len(found), next, err)
	}
	s.queries = nil
	if _, _, err := f.Search(t.Context(), "user", next, 10); err != nil || strings.Join(s.queries, ", ") != "email user after user-09" {
		t.Errorf("the next page asks %q, %v, want only addresses after user-09", s.queries, err)
	}
	if found, _, err := f.Search(t.Context(), "ana@", "", 0); err != nil || len(found) != 30+20 {
		t.Errorf("Search without a limit = %d, %v, want all", len(found), err)
	}
}

// A request that has just ended is found: what waits is moved once, and only if need be.
func TestRequest(t *testing.T) {
	t.Parallel()
	s, flushes := &asked{}, 0
	f := finder.New(s, func(context.Context) { flushes++; s.flushed = true })
	found, err := f.Request(t.Context(), " chatcmpl-abc ")
	if err != nil || len(found.Settled) != 1 || found.Settled[0].ID != "abc" || flushes != 1 {
		t.Errorf("Request = %+v, %v after %d flushes, want abc after 1", found, err, flushes)
	}
	if _, err := f.Request(t.Context(), "abc"); err != nil || flushes != 1 {
		t.Errorf("Request = %v after %d flushes, want 1", err, flushes)
	}
	if _, err := finder.New(&asked{}, nil).Request(t.Context(), "abc"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Request of one that is not there = %v, want not found", err)
	}
	if _, err := f.Request(t.Context(), ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("Request(\"\") = %v, want it invalid", err)
	}
	if _, err := finder.New(broken{}, nil).Request(t.Context(), "abc"); !errors.Is(err, errBroken) {
		t.Errorf("Request of a store that fails = %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{ finder.Store }

func (broken) Requests(context.Context, string, int) ([]usage.Settlement, error) {
	return nil, errBroken
}
