// Package providertest is the one suite that every adapter passes.
//
// The suite writes Scripts, in no dialect at all, and a Harness makes an upstream that plays them in
// its own. What comes out of the adapter must be the script again, whatever the wire looked like in
// between. What a harness cannot express it declares, and the report lists it. Bytes on the wire, and
// what only one adapter does, belong into that adapter's own tests.
package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/chat"
	"sluice/internal/provider"
)

// Harness drives one adapter.
type Harness struct {
	// Name is the adapter's column in the table of docs/providers.md; empty: it has none.
	Name string
	// Update writes that column anew.
	Update bool
	// Start readies an adapter whose upstream plays the script.
	Start func(t *testing.T, s *Script) *Play
	// Computes marks an adapter that makes up ids, figures and reasoning itself: they are checked
	// for their form alone.
	Computes bool
	// Lumps marks a dialect that counts reasoning and completion together.
	Lumps bool
	// Unsupported is what the harness cannot express: cases by name, and why.
	Unsupported map[string]string
}

// Script is what an upstream does with a request.
type Script struct {
	// Events are what it says: text, reasoning, calls, finish, usage. Its wire must say the same.
	Events []provider.Event
	// Then is what happens behind the events; the zero value is a normal end.
	Then Trouble
	// Refusal is its answer in place of events.
	Refusal *Refusal
}

// Trouble is a way for a reply to go wrong.
type Trouble uint8

const (
	Cut     Trouble = iota + 1 // the connection ends
	Reset                      // the connection breaks
	Closed                     // the reply ends as if it were complete
	Garbage                    // what follows cannot be read
	Stall                      // nothing follows
	Wait                       // not even a beginning comes; Events do not count
)

// Refusal is an answer with an error status.
type Refusal struct {
	Status  int
	Header  map[string]string
	Message string // put where the dialect has messages
	Body    string // sent as it is, in place of a message
}

// Play is a script about to be played.
type Play struct {
	Adapter  provider.Adapter
	Upstream string // the model's name over there
	Prompt   string // makes the upstream play the script; empty: any prompt will do
	// Asked tells what the upstream has been asked; nil: there is nothing to look into.
	Asked func() Asked
	// Gone is closed once the upstream has noticed that nobody listens; nil: there is no upstream.
	Gone <-chan struct{}
	// Close ends adapter and upstream.
	Close func()
}

// Asked is a request as an upstream reads it.
type Asked struct {
	Model     string
	Key       string
	Stream    bool
	Usage     bool // figures are wanted, too
	Texts     []string
	Tools     []string
	Choice    string // "", "none", "required", or the name of a tool
	JSON      bool
	MaxTokens int
	Effort    string
	Stop      []string
}

// Key is the credential that HTTP adapters are given. It must reach the upstream and nobody else.
const Key = "canary-7f3a91"

// Model is the upstream's name of the model that HTTP adapters are to ask for.
const Model = "upstream-model"

// Run runs the suite. The test that calls it must not be parallel: the suite looks for goroutines
// that are left behind.
func Run(t *testing.T, h Harness) {
	t.Helper()
	known := map[string]bool{}
	run := func(name string, parallel bool, f func(t *testing.T)) {
		known[name] = true
		t.Run(name, func(t *testing.T) {
			if why, ok := h.Unsupported[name]; ok {
				t.Skipf("unsupported by this harness: %s", why)
			}
			if parallel {
				t.Parallel()
			}
			f(t)
		})
	}
	for _, c := range abandonments {
		run(c.name, false, func(t *testing.T) { h.abandon(t, c) })
	}
	for _, c := range replies {
		run(c.name, true, func(t *testing.T) { h.reply(t, c) })
	}
	for _, c := range refusals {
		run(c.name, true, func(t *testing.T) { h.refuse(t, c) })
	}
	for _, c := range troubles {
		run(c.name, true, func(t *testing.T) { h.trouble(t, c) })
	}
	for _, name := range slices.Sorted(maps.Keys(h.Unsupported)) {
		if !known[name] {
			t.Errorf("Unsupported names %q, which is no case", name)
		}
	}
	if h.Name != "" {
		h.document(t)
	}
}

// patience is how long a test waits for what has to happen.
const patience = 20 * time.Second

// start readies the script and makes the call that plays it. More are members of the request.
func (h *Harness) start(t *testing.T, s *Script, stream bool, more string) (*Play, *provider.Call) {
	t.Helper()
	p := h.Start(t, s)
	prompt := p.Prompt
	if prompt == "" {
		prompt = "Hello?"
	}
	quoted, err := json.Marshal(prompt)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"model":"asked","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%s}],"stream":%t%s}`, quoted, stream, more)
	req, err := chat.Parse([]byte(body))
	if err != nil {
		t.Fatalf("Parse(%s) = %v", body, err)
	}
	return p, &provider.Call{Request: req, Upstream: p.Upstream, Thinks: true}
}

// reply plays a script that ends well, streamed and not.
func (h *Harness) reply(t *testing.T, c replyCase) {
	for _, stream := range []bool{true, false} {
		p, call := h.start(t, &Script{Events: c.events}, stream, c.request)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		in, err := p.Adapter.Open(ctx, call)
		if err != nil {
			t.Fatalf("Open(stream %t) = %v, want a stream", stream, err)
		}
		got := Collect(t, in)
		in.Close()
		if got.Err != nil {
			t.Errorf("stream %t: the reply ends with %v, want it complete", stream, got.Err)
		}
		want := Expected(c.events)
		if u := want.Usage; u != nil && h.Lumps {
			u.Completion, u.Reasoning = u.CompletionTotal(), 0
		}
		if h.Computes {
			check := sameForm
			if c.form != nil {
				check = c.form
			}
			check(t, got, want)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("stream %t: -want +got\n%s", stream, diff)
		}
		if p.Asked != nil {
			checkAsked(t, p.Asked(), stream, c.asked)
		}
		cancel()
		p.Close()
	}
}

// checkAsked holds what reached the upstream against what every request and this one must ask for.
func checkAsked(t *testing.T, got Asked, stream bool, want Asked) {
	t.Helper()
	want.Model, want.Key, want.Stream, want.Usage = Model, Key, stream, got.Usage
	want.Texts = []string{"Be brief.", "Hello?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the upstream was asked: -want +got\n%s", diff)
	}
	if stream && !got.Usage {
		t.Error("the upstream was not asked for its figures, want every call accounted for")
	}
}

// sameForm checks a reply whose ids, figures and reasoning are the adapter's own.
func sameForm(t *testing.T, got, want Reply) {
	t.Helper()
	for i := range got.Calls {
		if got.Calls[i].ID == "" {
			t.Errorf("call %d has no id", i)
		}
		got.Calls[i].ID = ""
	}
	for i := range want.Calls {
		want.Calls[i].ID = ""
	}
	if (got.Reasoning == "") != (want.Reasoning == "") {
		t.Errorf("reasoning %q, want some: %t", got.Reasoning, want.Reasoning != "")
	}
	got.Reasoning, want.Reasoning = "", ""
	if got.Usage == nil || got.Usage.PromptTotal() <= 0 || got.Usage.CompletionTotal() <= 0 {
		t.Errorf("usage %+v, want figures", got.Usage)
	}
	got.Usage, want.Usage = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// isJSON checks a text that is an adapter's own as a whole.
func isJSON(t *testing.T, got, _ Reply) {
	t.Helper()
	if !strings.HasPrefix(got.Text, "{") || !json.Valid([]byte(got.Text)) {
		t.Errorf("the text is %q, want a JSON object", got.Text)
	}
}
