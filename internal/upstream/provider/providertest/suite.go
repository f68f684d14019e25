// Package providertest is the suite that every adapter passes.
//
// The suite writes Scripts, which are in no dialect, and a Harness makes an upstream that plays them in its own
// dialect. The adapter's events must equal the script, whatever the wire format in between. A harness
// declares what it cannot express, and docs/providers/fields.md lists it. The bytes on the wire, and what only one adapter
// does, belong in that adapter's own tests; Transcripts helps with the bytes.
//
// To run the suite on an adapter that calls an upstream over HTTP, write a Dialect: functions that write events and
// errors in the wire format and that read a request from it. HTTP makes a server of it, and Run plays all cases:
//
//   - replies that end well (replies.go), streamed and whole;
//   - error statuses (failures.go), of which the caller learns only what is the caller's own fault, and of which only
//     the others count against the upstream;
//   - replies that are cut, stall or turn to garbage on the way;
//   - callers who leave, after which nothing may stay behind.
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

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Harness drives one adapter.
type Harness struct {
	// Name is the adapter's column in the table of docs/providers/fields.md. If it is empty, it has none.
	Name string
	// Update makes the suite write that column instead of checking it.
	Update bool
	// Start returns an adapter whose upstream plays the script. Each case calls it anew.
	Start func(t *testing.T, s *Script) *Play
	// Computes is for adapters that make up ids, figures and reasoning themselves. Only the form of these is
	// checked.
	Computes bool
	// Lumps is for dialects that count reasoning as part of the completion.
	Lumps bool
	// Deaf is for upstreams that take no sound.
	Deaf bool
	// Unsupported has the cases that the harness cannot express, by name, and the reason of each.
	Unsupported map[string]string
}

// Script is what an upstream does with a request.
type Script struct {
	// Events are the reply: text, reasoning, calls, finish, usage. The upstream's wire must say the same.
	Events []provider.Event
	// Then is what happens after the events. The zero value is a normal end.
	Then Trouble
	// Refusal is sent instead of the events, unless it is nil.
	Refusal *Refusal
}

// Trouble is a way for a reply to go wrong.
type Trouble uint8

const (
	Cut     Trouble = iota + 1 // the body ends without its last chunk
	Reset                      // the connection is reset
	Closed                     // the body ends as if the reply were complete
	Garbage                    // what follows is not in the dialect
	Stall                      // nothing follows, and the connection stays open
	Wait                       // not even headers come; Events do not count
)

// Refusal is a reply with an error status.
type Refusal struct {
	Status  int
	Header  map[string]string
	Message string // written as the dialect writes errors
	Body    string // sent as it is instead of Message, unless it is empty
}

// Play is a script with the adapter that is to play it.
type Play struct {
	Adapter  provider.Adapter
	Upstream string // the upstream's name of the model
	Prompt   string // makes the upstream play the script; empty if any prompt does
	// Asked returns what the upstream was asked, once it has been. It is nil if there is no upstream.
	Asked func() Asked
	// Gone is closed when the upstream has noticed that its caller left. It is nil if there is no upstream.
	Gone <-chan struct{}
	// Close ends the adapter and the upstream, and waits for their goroutines.
	Close func()
}

// Asked is a request as an upstream understands it. Only what the suite compares is listed; fields that a dialect
// cannot express stay zero.
type Asked struct {
	Model     string
	Key       string // the credential
	Stream    bool
	Usage     bool     // figures are asked for
	Texts     []string // of the system messages, then of the others
	Files     []string // images, documents and sounds: media type, a space, and the data
	Tools     []string // names
	Choice    string   // empty, "none", "required", or the name of a tool
	JSON      bool
	MaxTokens int
	Effort    string
	Stop      []string
}

// Key is the credential of HTTP adapters. It must reach the upstream, and must be in no error that a caller or the
// log sees.
const Key = "canary-7f3a91"

// Model is the upstream's name of the model that HTTP adapters ask for.
const Model = "upstream-model"

// Run runs the suite. The test that calls it must not be parallel: the suite looks for goroutines that are left
// behind, and would find those of other tests.
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
	// First and not in parallel: they look for goroutines that are left behind.
	for _, c := range abandonments {
		run(c.name, false, func(t *testing.T) { h.abandon(t, c) })
	}
	for _, c := range replies {
		run(c.name, true, func(t *testing.T) { h.reply(t, c) })
	}
	for _, c := range refusals {
		run(c.name, true, func(t *testing.T) { h.refuse(t, c) })
	}
	run("every status", true, h.blame)
	for _, c := range troubles {
		run(c.name, true, func(t *testing.T) { h.trouble(t, c) })
	}
	// A case that was renamed must not stay excused under its old name.
	for _, name := range slices.Sorted(maps.Keys(h.Unsupported)) {
		if !known[name] {
			t.Errorf("Unsupported names %q, which is not a case", name)
		}
	}
	if h.Name != "" {
		h.document(t)
	}
}

// patience ends a test that hangs. It is generous, since machines that run tests may be slow.
const patience = time.Minute

// start prepares a script and the call that plays it. more has further members of the request, each with a comma
// before it.
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

// reply plays a script that ends well, once streamed and once not. Both must give the same reply.
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
		// Such an adapter makes up its own words, so only their form can be compared.
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

// checkAsked checks what reached the upstream: what every request asks for, and what this one does.
func checkAsked(t *testing.T, got Asked, stream bool, want Asked) {
	t.Helper()
	want.Model, want.Key, want.Stream, want.Usage = Model, Key, stream, got.Usage
	want.Texts = []string{"Be brief.", "Hello?"}
	got.Tools, want.Tools = inAnyOrder(got.Tools), inAnyOrder(want.Tools)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the upstream was asked: -want +got\n%s", diff)
	}
	if stream && !got.Usage {
		t.Error("the upstream was not asked for its figures, want every call accounted for")
	}
}

// inAnyOrder returns names in the order of the alphabet: adapters that write tools themselves do not keep the caller's.
func inAnyOrder(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return sorted
}

// sameForm compares replies whose ids, figures and reasoning are the adapter's own. Of these it only checks that
// they are there.
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

// isJSON checks that the text is a JSON object, for adapters that compute it.
func isJSON(t *testing.T, got, _ Reply) {
	t.Helper()
	if !strings.HasPrefix(got.Text, "{") || !json.Valid([]byte(got.Text)) {
		t.Errorf("the text is %q, want a JSON object", got.Text)
	}
}
