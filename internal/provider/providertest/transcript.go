package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"sluice/internal/chat"
	"sluice/internal/continuation"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/relay"
)

// Transcripts plays testdata/*.txtar, each of which is a conversation. A turn NAME consists of
//
//	NAME/how   words: upstream=MODEL, thinks; not needed
//	NAME/sent  what the caller sent
//	NAME/up    what went up: method, URL, credentials, body
//	NAME/down  what came down: status and content type on the first line, then the body
//	NAME/got   what the caller got, and which fields it was told were dropped
//
// A turn that is refused before it goes up has neither up nor down. With update, up and got are
// written anew. What the adapter keeps for later turns is kept for those of the same file. open is told
// the name of the file, without its ending; headers names those that are shown.
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
	how, sent, up, down, got []byte // as the file has them

	wentUp, received string // as they are
}

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
			t.Fatalf("%s: %s is no part of a turn", file, f.Name)
		}
		*to = f.Data
	}
	return all
}

// files is the turn as it was played.
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

func (x *exchange) play(t *testing.T, open func(http.RoundTripper) (provider.Adapter, error), memory *continuation.Memory, headers []string) {
	t.Helper()
	req, err := chat.Parse(x.sent)
	if err != nil {
		t.Fatalf("%s: Parse = %v", x.name, err)
	}
	a, err := open(wire(func(r *http.Request) (*http.Response, error) { return x.answer(r, headers) }))
	if err != nil {
		t.Fatal(err)
	}
	call := &provider.Call{Request: req, Upstream: Model, ID: "turn-" + x.name + "-", Memory: memory}
	for _, word := range strings.Fields(string(x.how)) {
		if model, ok := strings.CutPrefix(word, "upstream="); ok {
			call.Upstream = model
		} else if word == "thinks" {
			call.Thinks = true
		} else {
			t.Fatalf("%s: what is %q?", x.name, word)
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

// answer notes what went up and sends down what the file says.
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

// wire answers requests without a network.
type wire func(*http.Request) (*http.Response, error)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// shelf keeps states in memory, for as long as a test runs.
type shelf map[string][]byte

func (s shelf) KeepState(_ context.Context, st *continuation.State, _ continuation.Bound) error {
	id, sealed := st.ID, st.Sealed
	s[string(id)] = sealed
	return nil
}

func (shelf) TrimStates(context.Context, int64, int) (int, error) { return 0, nil }

func (s shelf) FindState(_ context.Context, id []byte, _ time.Time) ([]byte, error) {
	return s[string(id)], nil
}

// NewMemory is a memory of one account, for tests.
func NewMemory() *continuation.Memory { return continuation.New(shelf{}, nil).For("account") }
