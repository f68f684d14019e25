package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/continuation"
	"sluice/internal/upstream/provider"
)

// Transcripts plays testdata/*.txtar, each of which is a conversation. A turn NAME consists of
//
//	NAME/how   optional words: upstream=MODEL, thinks
//	NAME/sent  what the caller sent
//	NAME/up    the request to the upstream: method, URL, some headers, body
//	NAME/down  the upstream's response: status and content type on the first line, then the body
//	NAME/got   what the caller got, after the names of the fields that were dropped
//
// A turn that is refused before it is sent has neither up nor down. If update is set, up and got are written instead
// of checked. All turns of a file share one memory. open gets the name of the file, without its ending; headers
// are the names of those to show.
func Transcripts(t *testing.T, update bool, open func(file string, wire http.RoundTripper) (provider.Adapter, error), headers ...string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// One memory for all turns of a file: a later turn may need what an earlier one kept.
		memory := NewMemory()
		out := &txtar.Archive{Comment: archive.Comment}
		for _, turn := range turns(t, file, archive) {
			turn.play(t, func(wire http.RoundTripper) (provider.Adapter, error) {
				return open(strings.TrimSuffix(filepath.Base(file), ".txtar"), wire)
			}, memory, headers)
			if diff := cmp.Diff(string(turn.up), turn.wentUp); diff != "" && !update {
				t.Errorf("%s: %s went up: -want +got\n%s", file, turn.name, diff)
			}
			if diff := cmp.Diff(string(turn.got), turn.received); diff != "" && !update {
				t.Errorf("%s: %s got: -want +got\n%s", file, turn.name, diff)
			}
			out.Files = append(out.Files, turn.files()...)
		}
		if update {
			if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// exchange is one turn of a conversation.
type exchange struct {
	name                     string
	how, sent, up, down, got []byte // what the file says

	wentUp, received string // what happened when the turn was played
}

// turns returns the turns of a file, in order.
func turns(t *testing.T, file string, archive *txtar.Archive) []*exchange {
	t.Helper()
	var all []*exchange
	for _, f := range archive.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, &exchange{name: name})
		}
		x := all[len(all)-1]
		to, ok := map[string]*[]byte{"how": &x.how, "sent": &x.sent, "up": &x.up, "down": &x.down, "got": &x.got}[part]
		if !ok {
			t.Fatalf("%s: %s is not a part of a turn", file, f.Name)
		}
		*to = f.Data
	}
	return all
}

// files returns the parts of a turn as it was played, to be written to the file.
func (x *exchange) files() []txtar.File {
	var out []txtar.File
	for _, f := range []struct {
		part string
		data []byte
	}{{"how", x.how}, {"sent", x.sent}, {"up", []byte(x.wentUp)}, {"down", x.down}, {"got", []byte(x.received)}} {
		if len(f.data) > 0 {
			out = append(out, txtar.File{Name: x.name + "/" + f.part, Data: f.data})
		}
	}
	return out
}

// play plays the turn and sets wentUp and received.
func (x *exchange) play(t *testing.T, open func(http.RoundTripper) (provider.Adapter, error), memory *continuation.Memory, headers []string) {
	t.Helper()
	req, err := chat.Parse(x.sent)
	if err != nil {
		t.Fatalf("%s: Parse = %v", x.name, err)
	}
	a, err := open(Transport(func(r *http.Request) (*http.Response, error) { return x.answer(r, headers) }))
	if err != nil {
		t.Fatal(err)
	}
	// The id is fixed, so that ids derived from it are the same in every run.
	call := &provider.Call{Request: req, Upstream: Model, ID: "turn-" + x.name + "-", Memory: memory}
	for _, word := range strings.Fields(string(x.how)) {
		if model, ok := strings.CutPrefix(word, "upstream="); ok {
			call.Upstream = model
		} else if word == "thinks" {
			call.Thinks = true
		} else {
			t.Fatalf("%s: unknown word %q in how", x.name, word)
		}
	}
	w := httptest.NewRecorder()
	err = x.relay(t.Context(), w, a, call)
	var b strings.Builder
	if len(call.Dropped) > 0 {
		fmt.Fprintf(&b, "dropped: %s\n", strings.Join(call.Dropped, ", "))
	}
	b.Write(bytes.TrimRight(w.Body.Bytes(), "\n"))
	if f, ok := errors.AsType[*fault.Fault](err); ok && !errors.Is(err, relay.ErrTold) {
		fmt.Fprintf(&b, "%d %s", f.Kind.Status(), f.Message)
		if f.Param != "" {
			fmt.Fprintf(&b, "\nparam: %s", f.Param)
		}
		if f.RetryAfter > 0 {
			fmt.Fprintf(&b, "\nretry after: %s", f.RetryAfter)
		}
	}
	x.received = b.String() + "\n"
}

// relay writes the reply as the product does, so that a transcript shows what callers get.
func (x *exchange) relay(ctx context.Context, w http.ResponseWriter, a provider.Adapter, call *provider.Call) error {
	in, err := a.Open(ctx, call)
	if err != nil {
		return err
	}
	defer in.Close()
	out := relay.New(w, relay.Head{RequestID: call.ID, Created: 1, Model: call.Request.Model},
		relay.Options{Stream: call.Request.Stream, N: call.Request.N, IncludeUsage: call.Request.IncludeUsage})
	defer out.Close()
	out.Relay(ctx, in)
	return out.Finish()
}

// answer records the request to the upstream and returns the response of the file.
func (x *exchange) answer(r *http.Request, headers []string) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var up bytes.Buffer
	fmt.Fprintf(&up, "%s %s\n", r.Method, r.URL)
	for _, name := range headers {
		if value := r.Header.Get(name); value != "" {
			fmt.Fprintf(&up, "%s: %s\n", name, value)
		}
	}
	if err := json.Compact(&up, body); err != nil {
		return nil, err
	}
	x.wentUp = up.String() + "\n"
	head, rest, _ := strings.Cut(string(x.down), "\n")
	code, contentType, _ := strings.Cut(head, " ")
	status, err := strconv.Atoi(code)
	if err != nil {
		return nil, fmt.Errorf("down begins with %q, want a status and a content type", head)
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(rest)),
	}, nil
}

// transcripts is a continuation.Store in memory, without expiry. It is not safe for use from several goroutines.
type transcripts map[string][]byte

func (s transcripts) KeepState(_ context.Context, st *continuation.State, _ continuation.Bound) error {
	id, sealed := st.ID, st.Sealed
	s[string(id)] = sealed
	return nil
}

func (transcripts) TrimStates(context.Context, int64, int) (int, error) { return 0, nil }

func (s transcripts) FindState(_ context.Context, id []byte, _ time.Time) ([]byte, error) {
	return s[string(id)], nil
}

func (s transcripts) FindStates(_ context.Context, ids [][]byte, now time.Time) (found []continuation.State, _ error) {
	for _, id := range ids {
		if sealed, ok := s[string(id)]; ok {
			found = append(found, continuation.State{ID: id, Sealed: sealed, ExpiresAt: now.AddDate(1, 0, 0)})
		}
	}
	return found, nil
}

func (transcripts) RenewStates(context.Context, [][]byte, time.Time, time.Time) error { return nil }

// NewMemory returns an empty memory of one account.
func NewMemory() *continuation.Memory { return continuation.New(transcripts{}, nil).For("account") }

// Memories is what is kept for one account, over many calls. It is not safe for use from several goroutines.
type Memories struct {
	transcripts
	order []string // the ids of states, in the order in which they were kept
}

// KeepState implements continuation.Store.
func (m *Memories) KeepState(ctx context.Context, st *continuation.State, most continuation.Bound) error {
	m.order = append(m.order, string(st.ID))
	return m.transcripts.KeepState(ctx, st, most)
}

// Memory returns the memory for one call.
func (m *Memories) Memory() *continuation.Memory {
	if m.transcripts == nil {
		m.transcripts = transcripts{}
	}
	return continuation.New(m, nil).For("account")
}

// Forget deletes the state that was kept as number i, from 0.
func (m *Memories) Forget(i int) { delete(m.transcripts, m.order[i]) }

// Restore adds what is kept here to others.
func (m *Memories) Restore(to *Memories) {
	maps.Copy(to.transcripts, m.transcripts)
	to.order = append(to.order, m.order...)
}
