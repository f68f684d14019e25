package idempotency

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
)

// memory is a store that can fail.
type memory struct {
	mu      sync.Mutex
	records map[string]*Record
	err     error
}

func (m *memory) FindReply(_ context.Context, id []byte, now time.Time) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[string(id)]; m.err == nil && r != nil && r.ExpiresAt.After(now) {
		return r.Sealed, nil
	}
	return nil, m.err
}

func (m *memory) KeepReply(_ context.Context, r *Record, _ time.Time, _ int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.records[string(r.ID)] = r
	}
	return m.err
}

func newMemory() *memory { return &memory{records: map[string]*Record{}} }

func newReplies(m *memory) *Replies { return New(m, slog.New(slog.DiscardHandler), nil) }

func request(body string) Request {
	return Request{AccountID: "acct_1", Path: "/v1/x", Key: []string{"key"}, Body: []byte(body)}
}

// begin wants the turn.
func begin(t *testing.T, r *Replies, req Request) *Turn {
	t.Helper()
	turn, reply, err := r.Begin(t.Context(), req)
	if turn == nil || reply != nil || err != nil {
		t.Fatalf("Begin(%s) = %v, %v, %v, want the turn", req.Body, turn, reply, err)
	}
	return turn
}

// repeat wants the reply.
func repeat(t *testing.T, r *Replies, req Request, want string) {
	t.Helper()
	turn, reply, err := r.Begin(t.Context(), req)
	if turn != nil || reply == nil || err != nil {
		t.Fatalf("Begin(%s) = %v, %v, %v, want a reply", req.Body, turn, reply, err)
	}
	if got := text(reply); got != want {
		t.Errorf("Begin(%s) repeats %q, want %q", req.Body, got, want)
	}
}

func text(r *Reply) string {
	var b bytes.Buffer
	for p := range r.Pieces {
		b.Write(p)
	}
	return b.String()
}

// answer runs a call of the turn.
func (t *Turn) answer(body string) {
	t.Record([]byte(body), false)
	t.Keep(context.Background())
	t.End()
}

func TestReadKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []string
		ok     bool
	}{
		{[]string{"a"}, true},
		{[]string{"a b~!"}, true},
		{[]string{strings.Repeat("k", 255)}, true},
		{[]string{strings.Repeat("k", 256)}, false},
		{[]string{""}, false},
		{[]string{}, false},
		{[]string{"a", "a"}, false},
		{[]string{"ä"}, false},
		{[]string{"a\tb"}, false},
		{[]string{"a\x7f"}, false},
	} {
		key, err := ReadKey(tt.values)
		if tt.ok && (err != nil || key != tt.values[0]) {
			t.Errorf("ReadKey(%q) = %q, %v, want the key", tt.values, key, err)
		}
		if !tt.ok && (!fault.Is(err, fault.Invalid) || fault.From(err).Param != "Idempotency-Key") {
			t.Errorf("ReadKey(%q) = %q, %v, want invalid at Idempotency-Key", tt.values, key, err)
		}
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	r := newReplies(newMemory())
	begin(t, r, request("one")).answer("reply")
	repeat(t, r, request("one"), "reply")

	_, _, err := r.Begin(t.Context(), request("two"))
	if !fault.Is(err, fault.Invalid) || fault.From(err).Param != "Idempotency-Key" {
		t.Errorf("Begin with another body = %v, want invalid at Idempotency-Key", err)
	}
	repeat(t, r, request("one"), "reply") // that changed nothing

	for name, change := range map[string]func(*Request){
		"account": func(q *Request) { q.AccountID = "acct_2" },
		"path":    func(q *Request) { q.Path = "/v1/y" },
		"key":     func(q *Request) { q.Key = []string{"other"} },
		// What two parts say together must not be what two others say.
		"border": func(q *Request) { q.AccountID, q.Path = "acct_1/", "v1/x" },
	} {
		q := request("one")
		change(&q)
		turn := begin(t, r, q)
		turn.answer("of another " + name)
		repeat(t, r, q, "of another "+name)
	}
	repeat(t, r, request("one"), "reply")
	if n := len(r.running); n != 0 {
		t.Errorf("%d calls are held to be running, want none", n)
	}
}

// A new process has nothing but the store.
func TestRepeatFromTheStore(t *testing.T) {
	t.Parallel()
	m := newMemory()
	begin(t, newReplies(m), request("one")).answer("reply")
	repeat(t, newReplies(m), request("one"), "reply")
	if len(m.records) != 1 {
		t.Fatalf("%d records, want 1", len(m.records))
	}
	for id, rec := range m.records {
		if strings.Contains(id, "key") || bytes.Contains(rec.Sealed, []byte("reply")) {
			t.Errorf("the store can read %q, %q", id, rec.Sealed)
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplies(newMemory())
		begin(t, r, request("one")).answer("first")
		time.Sleep(24*time.Hour - time.Second)
		repeat(t, r, request("one"), "first")
		time.Sleep(time.Second)
		begin(t, r, request("two")).answer("second")
		repeat(t, r, request("two"), "second")
	})
}

// Repeats wait for the first, and get its reply from memory even where the store has lost it.
func TestParallelRepeats(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{nil, errors.New("gone")} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.err = broken
			r := newReplies(m)
			turn := begin(t, r, request("one"))
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() { repeat(t, r, request("one"), "reply") })
			}
			synctest.Wait()
			if _, _, err := r.Begin(t.Context(), request("two")); !fault.Is(err, fault.Invalid) {
				t.Errorf("Begin with another body meanwhile = %v, want invalid at once", err)
			}
			time.Sleep(59 * time.Second)
			turn.Record([]byte("reply"), false)
			turn.Keep(t.Context())
			wg.Wait() // they need not wait for the caller of the first to read its reply
			turn.End()
		})
	}
}

// When a call fails, exactly one of those who wait takes its place.
func TestTakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplies(newMemory())
		first := begin(t, r, request("one"))
		turns := make(chan *Turn, 10)
		got := make(chan string, 10)
		for range 10 {
			go func() {
				turn, reply, err := r.Begin(t.Context(), request("one"))
				if err != nil {
					t.Errorf("Begin = %v", err)
				}
				if turn != nil {
					turns <- turn
				}
				if reply != nil {
					got <- text(reply)
				}
			}()
		}
		synctest.Wait()
		first.Record([]byte("half a rep"), false)
		first.End()
		synctest.Wait()
		if len(turns) != 1 || len(got) != 0 {
			t.Fatalf("%d took over and %d got a reply, want 1 and none", len(turns), len(got))
		}
		(<-turns).End()
		synctest.Wait()
		if len(turns) != 1 {
			t.Fatalf("%d took over from the second, want 1", len(turns))
		}
		(<-turns).answer("reply")
		synctest.Wait()
		if len(turns) != 0 || len(got) != 8 || <-got != "reply" {
			t.Errorf("%d took over and %d got a reply, want none and 8", len(turns), len(got))
		}
	})
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplies(newMemory())
		turn := begin(t, r, request("one"))
		start := time.Now()
		_, _, err := r.Begin(t.Context(), request("one"))
		if !fault.Is(err, fault.Conflict) || fault.From(err).Param != "Idempotency-Key" || time.Since(start) != time.Minute {
			t.Errorf("Begin while the first runs = %v after %v, want a conflict after a minute", err, time.Since(start))
		}
		// A caller who leaves waits no longer.
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		time.AfterFunc(time.Second, func() { cancel(left) })
		if _, _, err := r.Begin(ctx, request("one")); !errors.Is(err, left) {
			t.Errorf("Begin of a caller who left = %v, want why", err)
		}
		turn.answer("reply")
		repeat(t, r, request("one"), "reply")
	})
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pieces []string
		stream bool
		kept   bool
	}{
		{"a body of a MiB", []string{strings.Repeat("x", maxReply)}, false, true},
		{"one byte more", []string{strings.Repeat("x", maxReply), "x"}, false, false},
		{"at once", []string{strings.Repeat("x", 3*maxReply)}, false, false},
		{"long events", slices.Repeat([]string{"data: " + strings.Repeat("x", 10_000) + "\n\n"}, 120), true, false},
		{"short events", slices.Repeat([]string{`data: {"id":"chatcmpl-0123456789","choices":[{"delta":{"content":"a"}}]}` + "\n\n"}, 20_000), true, true},
		{"an event without an end", slices.Repeat([]string{strings.Repeat("x", 10_000)}, 120), true, false},
	} {
		r := newReplies(newMemory())
		turn := begin(t, r, request("one"))
		for _, p := range tt.pieces {
			turn.Record([]byte(p), tt.stream)
		}
		turn.Keep(t.Context())
		turn.End()
		if n := r.held.Load(); n != 0 {
			t.Errorf("%s: %d bytes are held afterwards, want none", tt.name, n)
		}
		if tt.kept {
			repeat(t, r, request("one"), strings.Join(tt.pieces, ""))
		} else {
			begin(t, r, request("one")).End()
		}
	}
}

// All that is being recorded has one bound.
func TestRoomForRecordings(t *testing.T) {
	t.Parallel()
	r := newReplies(newMemory())
	r.held.Store(maxHeld - 10)
	turn := begin(t, r, request("one"))
	turn.Record([]byte("12345678901"), false)
	turn.Keep(t.Context())
	turn.End()
	if n := r.held.Load(); n != maxHeld-10 {
		t.Errorf("%d bytes are held, want what was there before", n)
	}
	turn = begin(t, r, request("one"))
	turn.answer("1234567890")
	repeat(t, r, request("one"), "1234567890")
}

// Without the database calls run, and the log says so, not for each of them.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		m := newMemory()
		m.err = errors.New("the store is away")
		var log bytes.Buffer
		r := New(m, slog.New(slog.NewTextHandler(&log, nil)), nil)
		for range 5 {
			begin(t, r, request("one")).answer("reply")
		}
		if n := strings.Count(log.String(), "the store is away"); n != 1 {
			t.Errorf("the log tells of it %d times, want once:\n%s", n, log.String())
		}
		time.Sleep(time.Minute)
		begin(t, r, request("one")).answer("reply")
		if n := strings.Count(log.String(), "the store is away"); n != 2 {
			t.Errorf("the log tells of it %d times after a minute, want twice", n)
		}
		m.err = nil
		begin(t, r, request("one")).answer("reply")
		repeat(t, r, request("one"), "reply")
	})
}

func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	m := newMemory()
	r := newReplies(m)
	begin(t, r, request("one")).answer("reply")
	for _, rec := range m.records {
		rec.Sealed[len(rec.Sealed)/2] ^= 1
	}
	begin(t, r, request("one")).answer("again")
}
