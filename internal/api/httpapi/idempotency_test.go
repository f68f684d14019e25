package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/line/idempotency"
)

// witness is a store that notes what the caller had got when the reply was stored.
type witness struct {
	sent  *httptest.ResponseRecorder
	times int
	seen  string
}

func (w *witness) FindReply(context.Context, []byte, time.Time) ([]byte, error) { return nil, nil }

func (w *witness) KeepReply(context.Context, *idempotency.Record, time.Time, int64) error {
	w.times++
	w.seen = w.sent.Body.String()
	return nil
}

// A reply is stored once, when it is whole, and before its last bytes go out.
func TestKeeper(t *testing.T) {
	t.Parallel()
	const delta = `data: {"choices":[]}` + "\n\n"
	for _, tt := range []struct {
		name    string
		kind    string
		status  int
		pieces  []string
		whole   bool // the last piece is announced as the last
		stored  int
		unknown string // what had not been sent then
	}{
		{"a body", "application/json", 0, []string{`{"a":1}`}, true, 1, `{"a":1}`},
		{"a body in pieces", "application/json", 0, []string{`{"a":`, `1}`}, true, 1, `1}`},
		{"a body cut short", "application/json", 0, []string{`{"a":`}, false, 0, ""},
		{"a stream", "text/event-stream", 0, []string{delta, ": keep-alive\n", delta, delta + "data: [DONE]\n\n"}, true, 1, delta + "data: [DONE]\n\n"},
		{"a stream that breaks off", "text/event-stream", 0, []string{delta, `data: {"error":{}}` + "\n\n"}, false, 0, ""},
		{"no 200", "application/json", 404, []string{`{"a":1}`}, true, 0, ""},
	} {
		store := &witness{sent: httptest.NewRecorder()}
		a := &API{opts: Options{Replies: idempotency.New(store, slog.New(slog.DiscardHandler), nil)}}
		x := &exchange{ResponseWriter: store.sent, caller: auth.Caller{Account: &account.Account{ID: "acct_1"}}}
		k, err := a.keep(x, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/x", nil), []string{"key"}, []byte("body"), "lab/m", false)
		if k == nil || err != nil {
			t.Fatalf("%s: keep = %v, %v, want a keeper", tt.name, k, err)
		}
		k.Header().Set("Content-Type", tt.kind)
		if tt.status != 0 {
			k.WriteHeader(tt.status)
		}
		for i, p := range tt.pieces {
			if tt.whole && i == len(tt.pieces)-1 {
				k.Completing()
			}
			if _, err := k.Write([]byte(p)); err != nil {
				t.Fatal(err)
			}
		}
		k.end()
		sent := strings.Join(tt.pieces, "")
		if got := store.sent.Body.String(); got != sent {
			t.Errorf("%s: %q was sent, want %q", tt.name, got, sent)
		}
		if store.times != tt.stored || store.times > 0 && store.seen+tt.unknown != sent {
			t.Errorf("%s: stored %d times, when %q had been sent; want %d, and %q to come", tt.name, store.times, store.seen, tt.stored, tt.unknown)
		}
	}
}

// slow is a store that takes its time to look.
type slow struct{ witness }

func (*slow) FindReply(context.Context, []byte, time.Time) ([]byte, error) {
	time.Sleep(30 * time.Millisecond) // the bubble's clock
	return nil, nil
}

// Waiting for the first request with the key is not what the gateway adds; asking the database is.
func TestKeeperOverhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &API{opts: Options{Replies: idempotency.New(&slow{}, slog.New(slog.DiscardHandler), nil)}}
		call := func() (*recorder, *exchange) {
			x := &exchange{ResponseWriter: httptest.NewRecorder(), caller: auth.Caller{Account: &account.Account{ID: "acct_1"}}}
			x.wait.Arrived(time.Now())
			k, err := a.keep(x, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/x", nil), []string{"key"}, []byte("body"), "lab/m", false)
			if k == nil || err != nil {
				t.Errorf("keep = %v, %v, want a keeper", k, err)
			}
			return k, x
		}
		for _, wait := range []time.Duration{0, 7 * time.Second} {
			if first, _ := call(); wait > 0 {
				time.AfterFunc(wait, first.end)
			} else {
				first.end()
			}
			second, x := call()
			second.end()
			if own := x.wait.Own(time.Now()); own != 30*time.Millisecond {
				t.Errorf("behind a request of %v the gateway has added %v, want what the database took, 30ms", wait, own)
			}
		}
	})
}
