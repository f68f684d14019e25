package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
)

// listing makes a catalog from words such as "a", "a:basic" and "?x": a configured model, one with
// a tier, and a discovered one.
func listing(t *testing.T, words string) *catalog.Catalog {
	t.Helper()
	var models []catalog.Model
	for word := range strings.FieldsSeq(words) {
		m := catalog.Model{Plan: account.Free, RequestMilli: 1000, ContextLength: 10, MaxOutput: 5, Origin: catalog.Configured}
		id, tier, _ := strings.Cut(word, ":")
		if tier == "basic" {
			m.Plan = account.Basic
		}
		if id, discovered := strings.CutPrefix(id, "?"); discovered {
			m.ID, m.Origin = id, catalog.ThisMachine
		} else {
			m.ID = id
		}
		models = append(models, m)
	}
	c, err := catalog.New(models)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What the catalog of each process changes in the log, minute by minute.
func TestRecord(t *testing.T) {
	t.Parallel()
	type step struct {
		minute  int
		process string // its first step is its start
		words   string
		want    string
	}
	for name, tt := range map[string]struct {
		alone bool
		steps []step
	}{
		"one process": {true, []step{
			{0, "p", "a b", "added a, added b"},
			{1, "p", "a b", ""},
			{2, "p", "b a", ""},
			{3, "p", "a:basic c", "changed a, added c, removed b"},
			{4, "p", "a", "changed a, removed c"},
			{5, "p2", "a b", "added b"},
		}},
		"a restart": {true, []step{
			{0, "p", "a", "added a"},
			{1, "p2", "a", ""},
		}},
		"equal processes": {false, []step{
			{0, "p", "a b", "added a, added b"},
			{0, "q", "a b", ""},
			{5, "p", "a:basic", "changed a, removed b"},
			{6, "q", "a:basic", ""},
			{7, "q", "a:basic", ""},
		}},
		"a rollout by restarts, and an old process that restarts meanwhile": {false, []step{
			{0, "p", "a", "added a"},
			{0, "q", "a", ""},
			{10, "p2", "b", "added b, removed a"},
			{11, "q", "a", ""}, // it says that it is there
			{12, "q2", "a", ""},
			{20, "p2", "b", ""},
			{21, "q3", "b", ""},
			{22, "p2", "b", ""},
		}},
		"a rollout by reloads, and an old process that loads another certificate": {false, []step{
			{0, "p", "a", "added a"},
			{0, "q", "a", ""},
			{1, "p", "a:basic", "changed a"},
			{2, "q", "a", ""},
			{3, "q", "a:basic", ""},
		}},
		"a rollback by a reload": {false, []step{
			{0, "p", "a", "added a"},
			{1, "p", "b", "added b, removed a"},
			{2, "p", "a", "added a, removed b"},
		}},
		"a rollback by a restart": {false, []step{
			{0, "p", "a", "added a"},
			{10, "p2", "b", "added b, removed a"},
			{20, "p3", "a", ""},
			{30, "p3", "a", ""},
			{40, "p3", "a", "added a, removed b"},
			{50, "p3", "a", ""},
		}},
		"a server that comes and goes": {true, []step{
			{0, "p", "a", "added a"},
			{1, "p", "a ?x", "added x"},
			{2, "p", "a", ""},
			{3, "p", "a ?x", ""},
			{20, "p", "a", ""},
			{25, "p", "a ?x", ""},
			{54, "p", "a", ""},
			{56, "p", "a", "removed x"},
			{57, "p", "a", ""},
			{58, "p", "a ?x", "added x"},
		}},
		"a discovered model that keeps changing": {true, []step{
			{0, "p", "?x", "added x"},
			{1, "p", "?x:basic", ""},
			{2, "p", "?x", ""},
			{30, "p", "?x:basic", "changed x"},
			{31, "p", "?x", ""},
			{60, "p", "?x", "changed x"},
		}},
		"a start, before the first look": {true, []step{
			{0, "p", "a ?x", "added a, added x"},
			{600, "p2", "a", ""},
			{601, "p2", "a ?x", ""},
		}},
		"a model that only one process finds": {false, []step{
			{0, "p", "a ?x", "added a, added x"},
			{0, "q", "a", ""},
			{20, "p", "a ?x", ""},
			{40, "p", "a ?x", ""},
			{45, "q", "a", ""},
			{80, "q", "a", "removed x"},
		}},
		"a discovered model that is configured": {true, []step{
			{0, "p", "?x", "added x"},
			{1, "p", "x", ""},
			{2, "p", "", "removed x"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := &catalog.State{Models: map[string]catalog.Kept{}, Revisions: map[string]catalog.Revision{}}
			ran := map[string]string{}
			for i, s := range tt.steps {
				now := time.Unix(1_800_000_000, 0).Add(time.Duration(s.minute)*time.Minute + time.Duration(i)*time.Millisecond)
				_, revision, changes := state.Record(listing(t, s.words), catalog.Process{Was: ran[s.process], Alone: tt.alone}, now)
				ran[s.process] = revision
				var told []string
				for _, c := range changes {
					told = append(told, fmt.Sprint(c.Type, " ", c.Model))
					if (c.Before == nil) != (c.Type == catalog.Added) || (c.After == nil) != (c.Type == catalog.Removed) || !c.At.Equal(now) {
						t.Errorf("minute %d: the change %+v is not whole", s.minute, c)
					}
				}
				if got := strings.Join(told, ", "); got != s.want {
					t.Errorf("minute %d, process %s lists %q: changes %q, want %q", s.minute, s.process, s.words, got, s.want)
				}
			}
		})
	}
}

// A model keeps the date on which it first joined for a year after it is removed. A configured date
// stays.
func TestRecordDates(t *testing.T) {
	t.Parallel()
	state := &catalog.State{Models: map[string]catalog.Kept{}, Revisions: map[string]catalog.Revision{}}
	start := time.Unix(1_800_000_000, 0)
	created := func(words string, now time.Time, id string) int64 {
		dated, _, _ := state.Record(listing(t, words), catalog.Process{Alone: true}, now)
		m, ok := dated.Lookup(id)
		if !ok {
			t.Fatalf("Record(%q) loses %s", words, id)
		}
		return m.Created
	}
	later, muchLater := start.Add(time.Hour), start.Add(catalog.KeepChanges+2*time.Hour)
	for _, tt := range []struct {
		words string
		now   time.Time
		id    string
		want  time.Time
	}{
		{"a", start, "a", start},
		{"a b", later, "a", start},
		{"a b", later, "b", later},
		{"b", later, "b", later},
		{"a b", muchLater.Add(-2 * time.Hour), "a", start},
		{"b", muchLater, "b", later},
		{"b", muchLater.Add(catalog.KeepChanges), "b", later},
		{"a b", muchLater.Add(catalog.KeepChanges), "a", muchLater.Add(catalog.KeepChanges)},
	} {
		if got := created(tt.words, tt.now, tt.id); got != tt.want.Unix() {
			t.Errorf("%q at %v: %s joined at %d, want %d", tt.words, tt.now, tt.id, got, tt.want.Unix())
		}
	}
	configured := bare()
	configured.Created = 7
	c, err := catalog.New([]catalog.Model{configured})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, _, _ = state.Record(c, catalog.Process{}, start)
		if m := c.Models()[0]; m.Created != 7 || !strings.Contains(string(m.JSON()), `"created":7,`) {
			t.Errorf("a configured date became %s", m.JSON())
		}
	}
}

// Models with ever new names do not fill the database.
func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	state := &catalog.State{Models: map[string]catalog.Kept{}, Revisions: map[string]catalog.Revision{}}
	now := time.Unix(1_800_000_000, 0)
	for i := range 25_000 {
		state.Models[fmt.Sprint("gone", i)] = catalog.Kept{Joined: now, Seen: now.Add(time.Duration(i))}
	}
	state.Record(listing(t, "a"), catalog.Process{}, now)
	_, oldest := state.Models["gone0"]
	_, newest := state.Models["gone24999"]
	if len(state.Models) != 20_000 || oldest || !newest || state.Models["a"].Listing == nil {
		t.Errorf("%d models are remembered, the longest gone %t, the last gone %t; want 20000, without the longest gone", len(state.Models), oldest, newest)
	}
}

// The router can do what the models behind it can.
func TestRouterListing(t *testing.T) {
	t.Parallel()
	model := func(id string, change func(*catalog.Model)) catalog.Model {
		m := catalog.Model{ID: id, Plan: account.Free, RequestMilli: 1000, ContextLength: 1000, MaxOutput: 100, Origin: catalog.Configured}
		if change != nil {
			change(&m)
		}
		return m
	}
	plain := model("plain", nil)
	long := model("long", func(m *catalog.Model) { m.ContextLength, m.MaxOutput = 1_000_000, 128_000 })
	able := model("able", func(m *catalog.Model) { m.ToolCalling, m.Thinks, m.Images = true, true, true })
	gone := able
	gone.Vanished = true
	embeds := model("embeds", func(m *catalog.Model) { m.Embeds, m.MaxOutput = true, 0 })
	staff := able
	staff.StaffOnly = true
	for name, tt := range map[string]struct {
		models                 []catalog.Model
		output                 int
		tools, thinks, picture bool
	}{
		"nothing":               {nil, 0, true, true, true},
		"only embeddings":       {[]catalog.Model{embeds}, 0, true, true, true},
		"the sandbox":           {catalog.Sandbox(), 65_536, true, true, false},
		"one":                   {[]catalog.Model{plain}, 100, false, false, false},
		"several":               {[]catalog.Model{plain, long, able}, 128_000, true, true, true},
		"beside the sandbox":    {append(catalog.Sandbox(), plain), 100, false, false, false},
		"one that has vanished": {[]catalog.Model{plain, gone}, 100, false, false, false},
		"staff's, and sandbox":  {append(catalog.Sandbox(), staff), 65_536, true, true, true},
	} {
		c, err := catalog.New(append([]catalog.Model{catalog.Router("acme")}, tt.models...))
		if err != nil {
			t.Fatal(err)
		}
		r := c.Models()[0]
		if r.MaxOutput != tt.output || r.ToolCalling != tt.tools || r.Thinks != tt.thinks || r.Images != tt.picture || r.ContextLength != 400_000 {
			t.Errorf("%s: the router writes %d tokens, tools %t, thinks %t, images %t, context %d; want %d, %t, %t, %t, 400000",
				name, r.MaxOutput, r.ToolCalling, r.Thinks, r.Images, r.ContextLength, tt.output, tt.tools, tt.thinks, tt.picture)
		}
		output := ""
		if tt.output > 0 { // without a model there is no reply that could be long
			output = fmt.Sprintf(`"max_output":%d,`, tt.output)
		}
		if text := fmt.Sprintf(`"permission":{"context_length":400000,%s"tool_calling":%t}`, output, tt.tools); !strings.Contains(string(r.JSON()), text) {
			t.Errorf("%s: the router is listed as %s, want %s", name, r.JSON(), text)
		}
	}
}
