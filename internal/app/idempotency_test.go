package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/line/idempotency"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore"
)

// scripted is an upstream that counts its calls. Each waits until the test lets it answer.
type scripted struct {
	url    string
	calls  atomic.Int64
	left   atomic.Int64                   // calls whose caller hung up
	answer chan func(http.ResponseWriter) // what the next calls do
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	u := &scripted{answer: make(chan func(http.ResponseWriter), 100)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case answer := <-u.answer:
			answer(w)
		case <-r.Context().Done():
			u.left.Add(1)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	u.url = s.URL + "/v1"
	return u
}

// says answers with a text.
func says(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, text)
	}
}

// refuses answers with a fault that the caller is to blame for.
func refuses(w http.ResponseWriter) {
	http.Error(w, `{"error":{"message":"No.","type":"invalid_request_error"}}`, http.StatusBadRequest)
}

const chatPath = "/v1/chat/completions"

// idempotent makes a chat request with an Idempotency-Key.
func (n *node) idempotent(ctx context.Context, key, idem, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.scheme+n.Addr()+chatPath, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Idempotency-Key", idem)
	resp, err := n.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text), resp.TLS, resp.Proto}, err
}

// want makes such a request and checks how it was answered.
func (n *node) want(key, idem, body string, status int, replayed bool) reply {
	n.t.Helper()
	r, err := n.idempotent(n.t.Context(), key, idem, body)
	if err != nil || r.status != status || (r.header.Get("Idempotent-Replayed") == "true") != replayed {
		n.t.Errorf("POST %s with key %s = %d %.300s, replayed %q, %v, want %d, replayed %t", body, idem, r.status, r.body, r.header.Get("Idempotent-Replayed"), err, status, replayed)
	}
	return r
}

func settled(a *app.App) int64 {
	_, n := a.Settlements()
	return n
}

const labChat = `{"model":"lab/m","messages":[{"role":"user","content":"Say something."}]}`

// Identical requests, at the same time, later, and after a restart: one call, one charge, one answer.
func TestIdempotentRequests(t *testing.T) {
	t.Parallel()
	const callers = 8
	u := newScripted(t)
	s := newSite(t, lab(u.url, "lab/m"))
	n := s.start(t)
	key := n.OwnerKey()
	replies := make([]reply, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if replies[i], err = n.idempotent(t.Context(), key, "one", labChat); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all requests being there", func() bool {
		return n.BodiesInFlight() == int64(callers*len(labChat)) && u.calls.Load() == 1
	})
	u.answer <- says("first")
	u.answer <- says("second")
	all.Wait()
	replayed := 0
	left := map[string]bool{}
	for _, r := range replies {
		if r.status != 200 || r.body != replies[0].body || !strings.Contains(r.body, "first") {
			t.Errorf("a parallel request = %d %s, want the same as the others: %s", r.status, r.body, replies[0].body)
		}
		if r.header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
		left[r.header.Get("X-Ratelimit-Remaining-Requests")] = true
	}
	if len(left) != callers || !left["79"] || !left["72"] {
		t.Errorf("x-ratelimit-remaining-requests = %v, want 79 to 72: the call and each repeat is one request", left)
	}
	if replayed != callers-1 || u.calls.Load() != 1 || settled(n.App) != 1 {
		t.Errorf("%d of %d are marked as replayed, %d calls upstream, %d settlements, want all but one, 1 and 1", replayed, callers, u.calls.Load(), settled(n.App))
	}
	if r := n.want(key, "one", labChat, 200, true); r.body != replies[0].body || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("a later repeat = %s %s, want %s", r.header.Get("Content-Type"), r.body, replies[0].body)
	}
	n.stop()

	n = s.start(t)
	if r := n.want(key, "one", labChat, 200, true); r.body != replies[0].body {
		t.Errorf("the repeat after a restart = %s, want %s", r.body, replies[0].body)
	}
	if u.calls.Load() != 1 || settled(n.App) != 1 {
		t.Errorf("the repeat after a restart made %d calls and %d settlements more, want none", u.calls.Load()-1, settled(n.App)-1)
	}
	if r := n.want(key, "one", labChat+" ", 400, false); !strings.Contains(r.body, `"param":"Idempotency-Key"`) {
		t.Errorf("another body = %s, want param Idempotency-Key", r.body)
	}
	if r := n.want(key, "two", labChat, 200, false); !strings.Contains(r.body, "second") {
		t.Errorf("another key = %s, want the second answer", r.body)
	}
	other := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	u.answer <- says("third")
	if r := n.want(other.MasterKey, "one", labChat, 200, false); !strings.Contains(r.body, "third") {
		t.Errorf("the same key of another account = %s, want a call of its own", r.body)
	}
	// Sub-keys are the account's.
	sub := must[admin.NewKey](n, "key.create", admin.Target{Actor: "t", Ref: other.ID, Name: "sub"})
	if r := n.want(sub.Key, "one", labChat, 200, true); !strings.Contains(r.body, "third") {
		t.Errorf("the same key with a sub-key = %s, want the account's reply", r.body)
	}
}

// A stream is repeated as a stream, event for event.
func TestIdempotentStreams(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	d := newDescription(t)
	key := n.OwnerKey()
	for name, body := range map[string]string{
		"text":  `{"model":"sandbox/small","stream":true,"messages":[{"role":"user","content":"[[sandbox:tokens=3000]] Go on."}]}`,
		"usage": `{"model":"sandbox/small","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Say hello."}]}`,
		"tools": `{"model":"sandbox/small","stream":true,"messages":[{"role":"user","content":"Use f."}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
	} {
		first := n.want(key, name, body, 200, false)
		if !strings.HasSuffix(first.body, "data: [DONE]\n\n") {
			t.Fatalf("%s: the stream ends with %q", name, first.body[max(0, len(first.body)-50):])
		}
		before := settled(n.App)
		again := n.want(key, name, body, 200, true)
		if again.body != first.body {
			t.Errorf("%s: the stream is repeated as\n%s\nwant\n%s", name, again.body, first.body)
		}
		for _, h := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering", "X-Ratelimit-Limit-Requests"} {
			if again.header.Get(h) != first.header.Get(h) || again.header.Get(h) == "" {
				t.Errorf("%s: %s = %q, want %q", name, h, again.header.Get(h), first.header.Get(h))
			}
		}
		if again.header.Get("X-Request-Id") == first.header.Get("X-Request-Id") {
			t.Errorf("%s: the repeat has the request id of the first", name)
		}
		if settled(n.App) != before {
			t.Errorf("%s: the repeat was settled", name)
		}
		if name != "text" { // its many events would take a minute to check
			d.check(t, "POST", chatPath, again)
		}
	}
	// One that breaks off is not a reply to be repeated.
	const cut = `{"model":"sandbox/small","stream":true,"messages":[{"role":"user","content":"[[sandbox:cut=3]][[sandbox:tokens=20]] Go on."}]}`
	for range 2 {
		if r := n.want(key, "cut", cut, 200, false); !strings.Contains(r.body, `"error"`) {
			t.Errorf("a stream that breaks off = %s, want an error in it", r.body)
		}
	}
}

// What does not end in a whole 200 leaves the key free, for one of those who wait, too.
func TestIdempotentFailures(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	n := newSite(t, lab(u.url, "lab/m")).start(t)
	key := n.OwnerKey()
	u.answer <- refuses
	n.want(key, "one", labChat, 400, false)
	u.answer <- says("first")
	first := n.want(key, "one", labChat, 200, false)
	if r := n.want(key, "one", labChat, 200, true); r.body != first.body {
		t.Errorf("the repeat of the one that passed = %s, want %s", r.body, first.body)
	}

	wait := func(callers int64) {
		eventually(t, "all requests being there", func() bool { return n.BodiesInFlight() == callers*int64(len(labChat)) })
	}
	for name, fail := range map[string]func(hangUp func()){
		"refused": func(func()) { u.answer <- refuses },
		"left": func(hangUp func()) {
			hangUp()
			// Before that, the first call might take the answer that is meant for the second.
			eventually(t, "the first call's end", func() bool { return u.left.Load() == 1 })
		},
	} {
		calls := u.calls.Load()
		ctx, hangUp := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = n.idempotent(ctx, key, name, labChat) })
		eventually(t, "the first call", func() bool { return u.calls.Load() == calls+1 })
		var ran, replayed atomic.Int64
		for range 4 {
			all.Go(func() {
				r, err := n.idempotent(t.Context(), key, name, labChat)
				switch {
				case err != nil || r.status != 200:
					t.Errorf("%s: a request that waited = %d %s, %v, want 200", name, r.status, r.body, err)
				case r.header.Get("Idempotent-Replayed") == "true":
					replayed.Add(1)
				default:
					ran.Add(1)
				}
			})
		}
		wait(5)
		fail(hangUp)
		eventually(t, "the second call", func() bool { return u.calls.Load() == calls+2 })
		u.answer <- says("second")
		all.Wait()
		hangUp()
		if ran.Load() != 1 || replayed.Load() != 3 || u.calls.Load() != calls+2 {
			t.Errorf("%s: of four that waited %d ran and %d got its reply, %d calls in all; want 1, 3 and 2", name, ran.Load(), replayed.Load(), u.calls.Load()-calls)
		}
	}
}

func TestIdempotentLargeReply(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	n := newSite(t, lab(u.url, "lab/m")).start(t)
	for range 2 {
		u.answer <- says(strings.Repeat("word ", 250_000))
		if r := n.want(n.OwnerKey(), "large", labChat, 200, false); len(r.body) < 1<<20 {
			t.Errorf("the reply has %d bytes, want more than a MiB", len(r.body))
		}
	}
	u.answer <- says(strings.Repeat("word ", 200_000))
	first := n.want(n.OwnerKey(), "not so large", labChat, 200, false)
	if r := n.want(n.OwnerKey(), "not so large", labChat, 200, true); r.body != first.body {
		t.Errorf("a repeat of %d bytes = %d bytes", len(first.body), len(r.body))
	}
}

func TestIdempotentConflict(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	s := newSite(t, lab(u.url, "lab/m"))
	s.replies = &idempotency.Options{Wait: 50 * time.Millisecond}
	n := s.start(t)
	var all sync.WaitGroup
	all.Go(func() { n.want(n.OwnerKey(), "one", labChat, 200, false) })
	eventually(t, "the first call", func() bool { return u.calls.Load() == 1 })
	r := n.want(n.OwnerKey(), "one", labChat, 409, false)
	if !strings.Contains(r.body, `"type":"conflict"`) || !strings.Contains(r.body, `"param":"Idempotency-Key"`) || r.header.Get("X-Should-Retry") != "" {
		t.Errorf("a repeat while the first runs = %s, want a conflict that a retry can mend", r.body)
	}
	newDescription(t).check(t, "POST", chatPath, r)
	n.want(n.OwnerKey(), "one", labChat+" ", 400, false)
	u.answer <- says("first")
	all.Wait()
	n.want(n.OwnerKey(), "one", labChat, 200, true)
	if u.calls.Load() != 1 {
		t.Errorf("%d calls, want 1", u.calls.Load())
	}
}

func TestIdempotentExpiry(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.replies = &idempotency.Options{Life: time.Nanosecond}
	n := s.start(t)
	const body = `{"model":"sandbox/small","messages":[{"role":"user","content":"Say hello."}]}`
	n.want(n.OwnerKey(), "one", body, 200, false)
	n.want(n.OwnerKey(), "one", body+" ", 200, false)
	n.stop()
	// The next start deletes what is over.
	s.replies = nil
	s.start(t)
	db := openSQLite(t, s)
	eventually(t, "the deletion of what has expired", func() bool {
		var rows, size int
		err := db.QueryRow(`SELECT (SELECT COUNT(*) FROM idempotent_replies), (SELECT SUM(bytes) FROM idempotent_sizes)`).Scan(&rows, &size)
		return err == nil && rows == 0 && size == 0
	})
}

func openSQLite(t *testing.T, s *site) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.data(), sqlstore.File)+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A repeat takes one request of the allowance.
func TestIdempotentBeyondTheAllowance(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	free := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "free"})
	const body = `{"model":"sandbox/small","messages":[{"role":"user","content":"Say hello."}]}`
	n.want(free.MasterKey, "one", body, 200, false)
	if r := n.want(free.MasterKey, "one", body, 200, true); r.header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("x-ratelimit-remaining-requests = %q, want 0", r.header.Get("X-Ratelimit-Remaining-Requests"))
	}
	if r := n.want(free.MasterKey, "one", body, 429, false); r.header.Get("Retry-After") == "" || strings.Contains(r.body, "choices") {
		t.Errorf("a repeat beyond the allowance = %v %s, want a 429 that says when", r.header, r.body)
	}
	n.want(free.MasterKey, "two", body, 429, false)
	// A request that is wrong, and a key that is refused, are told so first.
	n.want(free.MasterKey, "one", `{"model":`, 400, false)
	must[any](n, "account.suspend", admin.Target{Actor: "t", Ref: free.ID, Reason: "r"})
	n.want(free.MasterKey, "one", body, 423, false)
	if r := n.want(n.OwnerKey(), strings.Repeat("k", 256), body, 400, false); !strings.Contains(r.body, `"param":"Idempotency-Key"`) {
		t.Errorf("a key that is too long = %s, want param Idempotency-Key", r.body)
	}
}

// While the database cannot be written to calls pass, and their replies are not promised to anybody.
func TestIdempotentWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	key := n.OwnerKey()
	const body = `{"model":"sandbox/small","stream":true,"messages":[{"role":"user","content":"Say hello."}]}`
	lock, err := openSQLite(t, s).Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback() }()
	// On a machine with nothing else to do it takes three seconds. That it ends at all is always tested.
	start, bound := time.Now(), patience
	if os.Getenv("SLUICE_SOAK") != "" {
		bound = 8 * time.Second
	}
	n.want(key, "one", body, 200, false)
	if took := time.Since(start); took > bound {
		t.Errorf("a call while the database is locked took %v, want the wait for it to be bounded", took)
	}
	if log := n.log.String(); !strings.Contains(log, "a reply could not be kept") {
		t.Errorf("the log does not tell of it:\n%s", log)
	}
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	n.want(key, "one", body, 200, false)
	n.want(key, "one", body, 200, true)
}
