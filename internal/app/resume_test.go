package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/line/idempotency"
	"sluice/internal/line/resume"
	"sluice/internal/operate/admin"
)

// narrator is an upstream that streams ten words, each in an event. A call with "hold:n" in its prompt sends the
// first n of its events, says so, and waits until the test lets it go on.
type narrator struct {
	url string

	mu   sync.Mutex
	held map[string]chan struct{} // by the prompt
	gone map[string]bool          // prompts whose call was canceled
}

func newNarrator(t *testing.T) *narrator {
	t.Helper()
	u := &narrator{held: map[string]chan struct{}{}, gone: map[string]bool{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, prompt, _ := strings.Cut(string(body), `"content":"`)
		prompt, _, _ = strings.Cut(prompt, `"`)
		w.Header().Set("Content-Type", "text/event-stream")
		_, hold, _ := strings.Cut(prompt, "hold:")
		for i := range 12 {
			if fmt.Sprint(i) == hold && !u.wait(r.Context(), prompt) {
				return
			}
			delta, finish := fmt.Sprintf(`"content":"word %d "`, i), "null"
			switch i {
			case 0:
				delta = `"role":"assistant","content":""`
			case 11:
				delta, finish = "", `"stop"`
			}
			fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`+"\n\n", delta, finish)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	u.url = s.URL + "/v1"
	return u
}

// gate returns the channel that a held call waits for.
func (u *narrator) gate(prompt string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.held[prompt] == nil {
		u.held[prompt] = make(chan struct{})
	}
	return u.held[prompt]
}

func (u *narrator) wait(ctx context.Context, prompt string) bool {
	select {
	case <-u.gate(prompt):
		return true
	case <-ctx.Done():
		u.mu.Lock()
		defer u.mu.Unlock()
		u.gone[prompt] = true
		return false
	}
}

func (u *narrator) canceled(prompt string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.gone[prompt]
}

// told is a stream as far as a caller has got it.
type told struct {
	location string // of its rest
	last     string // the id of the last whole event
	text     string // the whole events, without their ids
}

// add takes bytes of an event stream, and returns those of an event that is not whole.
func (s *told) add(p string) {
	for {
		event, rest, whole := strings.Cut(p, "\n\n")
		if !whole {
			return
		}
		p = rest
		if id, data, ok := strings.Cut(strings.TrimPrefix(event, ": keep-alive\n"), "\n"); ok && strings.HasPrefix(id, "id: ") {
			s.last = strings.TrimPrefix(id, "id: ")
			s.text += data + "\n\n"
		} else {
			s.text += event + "\n\n"
		}
	}
}

const resumableChat = `{"model":"lab/m","messages":[{"role":"user","content":"%s"}],"stream":true,"stream_options":{"resumable":true,"include_usage":true}}`

// cutAt sends a chat completion on a connection of its own, reads so many bytes of the reply, and breaks the
// connection.
func (n *node) cutAt(key, idem, body string, bytes int) (s told, err error) {
	nc, err := net.Dial("tcp", n.Addr())
	if err != nil {
		return s, err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, key, idem, len(body), body)
	got := make([]byte, bytes)
	if _, err := io.ReadFull(nc, got); err != nil {
		return s, fmt.Errorf("after %.400q: %w", got, err)
	}
	_ = nc.(*net.TCPConn).SetLinger(0) // a reset, as of a network that is gone
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(got))), nil)
	if err != nil {
		return s, nil // not even the head
	}
	part, _ := io.ReadAll(resp.Body) // which breaks off
	s.location = resp.Header.Get("X-Sluice-Resume")
	s.add(string(part))
	return s, nil
}

// lostReplies reports whether the node says that its database did not take or give a reply in time. Then a repeat runs the
// call again, as the log says; on a machine that is busy enough this happens by itself.
func (n *node) lostReplies() bool {
	return strings.Contains(n.log.String(), "for repeats of its Idempotency-Key") || strings.Contains(n.log.String(), "calls with an Idempotency-Key")
}

// rest reads the rest of a stream.
func (n *node) rest(key string, s *told) error {
	req, err := http.NewRequest(http.MethodGet, n.scheme+n.Addr()+s.location, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if s.last != "" {
		req.Header.Set("Last-Event-ID", s.last)
	}
	r, err := n.try(req)
	if err == nil && r.status != 200 {
		err = fmt.Errorf("GET %s after %q = %d %s", s.location, s.last, r.status, r.body)
	}
	s.add(r.body)
	return err
}

// replyID takes the id and the time out of a stream, which no two have in common.
func replyID(text string) (id, without string) {
	_, after, _ := strings.Cut(text, `"id":"chatcmpl-`)
	id, _, _ = strings.Cut(after, `"`)
	text = strings.ReplaceAll(text, id, "ID")
	_, created, _ := strings.Cut(text, `"created":`)
	created, _, _ = strings.Cut(created, ",")
	return id, strings.ReplaceAll(text, `"created":`+created, `"created":0`)
}

// every returns between how many bytes a stream is cut: every one in a soak.
func every(short int) int {
	if os.Getenv("SLUICE_SOAK") != "" {
		return 1
	}
	return short
}

// A stream that is cut anywhere is continued on the same node and on another: what the caller has in the end is, byte
// for byte, what it gets without a cut, and it pays once.
func TestResumeCutAnywhere(t *testing.T) {
	t.Parallel()
	u := newNarrator(t)
	one, two, _ := onOneDatabase(t, lab(u.url, "lab/m"), &idempotency.Options{Patience: patience}) // a slow database is none of this test's faults
	key := one.OwnerKey()
	owner := must[admin.Account](one, "account.show", admin.Target{Ref: "owner@localhost"})

	whole := one.request("POST", chatPath, key, fmt.Sprintf(resumableChat, "all"))
	var want told
	want.add(whole.body)
	_, text := replyID(want.text)
	if !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Count(text, "data: ") != 14 {
		t.Fatalf("the stream without a cut = %s", text)
	}
	// How many bytes there are at least when so many events were sent. Chunks add some, and the head varies a little.
	sure := []int{len("HTTP/1.1 200 OK\r\n\r\n") - 10}
	for name, values := range whole.header {
		sure[0] += len(name) + len(": \r\n") + len(values[0])
	}
	for event := range strings.SplitSeq(strings.TrimSuffix(whole.body, "\n\n"), "\n\n") {
		sure = append(sure, sure[len(sure)-1]+len(event)+len("\n\n"))
	}
	size := sure[len(sure)-1]
	cuts := 0
	var again atomic.Int64 // repeats that ran the call once more, since the database did not answer in time
	var all sync.WaitGroup
	room := make(chan struct{}, 8)
	for at := 1; at <= size; at += every(67) {
		cuts++
		all.Add(1)
		room <- struct{}{}
		go func() {
			defer func() { <-room; all.Done() }()
			other := at%2 == 0
			// In half of the streams the model goes on only when the caller has gone.
			prompt := fmt.Sprint("cut ", at)
			if n, _ := slices.BinarySearch(sure, at); at/2%2 == 0 && n > 0 && n < 12 {
				prompt += fmt.Sprint(" hold:", max(n, 2)) // a role alone is no reply yet
			}
			body := fmt.Sprintf(resumableChat, prompt)
			s, err := one.cutAt(key, prompt, body, at)
			if err != nil {
				t.Errorf("cut at %d: %v", at, err)
				return
			}
			close(u.gate(prompt))
			from := one
			if other {
				from = two
			}
			if s.location == "" {
				// Without the head there is no id; the key finds the reply.
				var r reply
				if r, err = from.idempotent(t.Context(), key, prompt, body); err == nil && r.header.Get("Idempotent-Replayed") != "true" {
					again.Add(1)
					if !one.lostReplies() && !two.lostReplies() {
						err = fmt.Errorf("the repeat was not one: %d %s", r.status, r.body)
					}
				}
				s.add(r.body)
			} else {
				err = from.rest(key, &s)
			}
			if err != nil {
				t.Errorf("cut at %d, resumed on another node %t: %v", at, other, err)
				return
			}
			if _, got := replyID(s.text); got != text {
				t.Errorf("cut at %d, resumed on another node %t after %q = %s, want %s", at, other, s.last, got, text)
			}
		}()
	}
	all.Wait()
	if _, n := one.Settlements(); n != int64(cuts)+1+again.Load() {
		t.Errorf("%d calls are in the books, want %d, and %d that were run again", n, cuts+1, again.Load())
	}
	settled, err := one.SettledFor(t.Context(), owner.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settled {
		if s.End != usage.EndComplete || s.Tokens.CompletionTotal() != 4 {
			t.Errorf("%s is settled as %s with %d tokens, want complete, 4", s.ID, s.End, s.Tokens.CompletionTotal())
		}
	}
	if one.Running()+two.Running() != 0 {
		t.Error("calls are still running")
	}
	t.Logf("soak: %d streams of %d bytes, cut at every %d bytes, half of them resumed on another node: all equal, each charged once; %d run again by a repeat, because the database was too slow", cuts, size, every(67), again.Load())
}

// Who does not come back is charged for what was produced, and the slot is free then.
func TestResumeNobodyComesBack(t *testing.T) {
	t.Parallel()
	u := newNarrator(t)
	s := newSite(t, lab(u.url, "lab/m"))
	s.streams = &resume.Options{Patience: 300 * time.Millisecond}
	n := s.start(t)
	got, err := n.cutAt(n.OwnerKey(), "x", fmt.Sprintf(resumableChat, "left hold:6"), 1200)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the call", func() bool { return u.canceled("left hold:6") && n.Running() == 0 })
	held, all := n.Settlements()
	if all != 1 || held[0].End != usage.EndHangUp || held[0].Tokens.CompletionTotal() == 0 {
		t.Errorf("settled = %+v, want one hang-up with what was produced", held)
	}
	if r := n.get(got.location, n.OwnerKey()); r.status != 404 {
		t.Errorf("GET %s later = %d %s, want 404", got.location, r.status, r.body)
	}
}

// A caller who asks for the end of a call gets it at once, after the connection broke and while it is open, and is charged
// for what was produced.
func TestResumeEnded(t *testing.T) {
	t.Parallel()
	u := newNarrator(t)
	n := newSite(t, lab(u.url, "lab/m")).start(t)
	key := n.OwnerKey()
	got, err := n.cutAt(key, "x", fmt.Sprintf(resumableChat, "left hold:6"), 1200)
	if err != nil {
		t.Fatal(err)
	}
	end := func(location string) {
		t.Helper()
		if r := n.request("DELETE", location, key, ""); r.status != 204 {
			t.Errorf("DELETE %s = %d %s, want 204", location, r.status, r.body)
		}
	}
	end(got.location)
	eventually(t, "the end of the call", func() bool { return u.canceled("left hold:6") && n.Running() == 0 })

	body := fmt.Sprintf(resumableChat, "stays hold:6")
	req, err := http.NewRequest("POST", n.scheme+n.Addr()+chatPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	end(resp.Header.Get("X-Sluice-Resume"))
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the open connection got %q and an end, want it to be cut", text)
	}
	eventually(t, "the end of the other call", func() bool { return u.canceled("stays hold:6") && n.Running() == 0 })
	held, all := n.Settlements()
	for _, s := range held {
		if s.End != usage.EndHangUp || s.Tokens.CompletionTotal() == 0 {
			t.Errorf("settled = %+v, want a hang-up with what was produced", s)
		}
	}
	if all != 2 {
		t.Errorf("%d settlements, want 2", all)
	}
	if r := n.request("DELETE", got.location, key, ""); r.status != 404 {
		t.Errorf("DELETE of a call that is over = %d %s, want 404", r.status, r.body)
	}
}

// The usual wire does not change, and whoever may not read a stream does not learn that it is there.
func TestResumeOffByDefault(t *testing.T) {
	t.Parallel()
	u := newNarrator(t)
	n := newSite(t, lab(u.url, "lab/m")).start(t)
	key := n.OwnerKey()
	plain := n.request("POST", chatPath, key, `{"model":"lab/m","messages":[{"role":"user","content":"x"}],"stream":true}`)
	if strings.Contains(plain.body, "id: ") || plain.header.Get("X-Sluice-Resume") != "" {
		t.Errorf("a usual stream = %v %s, want no ids", plain.header, plain.body)
	}
	req, err := http.NewRequest("POST", n.scheme+n.Addr()+chatPath, strings.NewReader(`{"model":"lab/m","messages":[{"role":"user","content":"x"}],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("X-Sluice-Resume", "1")
	r := n.answered(req)
	var s told
	s.add(r.body)
	if _, got := replyID(s.text); s.last != "13" {
		t.Errorf("with the header = %s, want 13 events with ids", r.body)
	} else if _, want := replyID(plain.body); got != want {
		t.Errorf("with the header = %q, want %q with ids", got, want)
	}
	at := r.header.Get("X-Sluice-Resume")
	stranger := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "scale"}).MasterKey
	for _, test := range []struct {
		method, path, key, last string
		status                  int
	}{
		{"GET", at, key, "12", 200},
		{"HEAD", at, key, "", 200},
		{"GET", at, stranger, "", 404},
		{"HEAD", at, stranger, "", 404},
		{"GET", at, "", "", 401},
		{"GET", strings.Replace(at, "chatcmpl-", "chatcmpl-0", 1), key, "", 404},
		{"GET", at, key, "14", 400},
		{"GET", at, key, "one", 400},
		{"POST", at, key, "", 405},
	} {
		req, err := http.NewRequest(test.method, n.scheme+n.Addr()+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.key != "" {
			req.Header.Set("Authorization", "Bearer "+test.key)
		}
		if test.last != "" {
			req.Header.Set("Last-Event-ID", test.last)
		}
		if r := n.answered(req); r.status != test.status || test.last == "12" && r.body != "id: 13\ndata: [DONE]\n\n" {
			t.Errorf("%s %s after %q = %d %s, want %d", test.method, test.path, test.last, r.status, r.body, test.status)
		}
	}
}

// A stream that another node resumes is told by its own node that it stops, and a call is ended from another node. Nobody but
// a node finds anything where nodes ask each other.
func TestResumeOverNodes(t *testing.T) {
	t.Parallel()
	u := newNarrator(t)
	one, two, _ := onOneDatabase(t, "drain_timeout: 1s\n"+lab(u.url, "lab/m"), nil)
	key := one.OwnerKey()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"} {
		for _, value := range []string{"", "AAAA", strings.Repeat("A", 4096)} {
			ask := func(path string) reply {
				req, err := http.NewRequest(method, one.scheme+one.Addr()+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Sluice-Node", value)
				r := one.answered(req)
				r.header.Del("Date")
				r.header.Del("X-Request-Id")
				r.header.Del("Content-Length")
				r.body = strings.ReplaceAll(regexp.MustCompile(`"request_id":"[^"]*"`).ReplaceAllString(r.body, ""), path, "")
				return r
			}
			got, want := ask(resume.NodePath), ask("/nodes/nothing")
			if got.status != 404 || got.body != want.body || !maps.EqualFunc(got.header, want.header, slices.Equal) {
				t.Errorf("%s %s = %d %v %s, want it as where nothing is: %d %v %s", method, resume.NodePath, got.status, got.header, got.body, want.status, want.header, want.body)
			}
		}
	}
	s, err := one.cutAt(key, "a", fmt.Sprintf(resumableChat, "end hold:6"), 1200)
	if err != nil || s.location == "" {
		t.Fatal(s, err)
	}
	if r := two.request("DELETE", s.location, key, ""); r.status != 204 {
		t.Errorf("DELETE %s on another node = %d %s, want 204", s.location, r.status, r.body)
	}
	eventually(t, "the end of the call", func() bool { return u.canceled("end hold:6") })

	if s, err = one.cutAt(key, "b", fmt.Sprintf(resumableChat, "stop hold:6"), 1200); err != nil || s.location == "" {
		t.Fatal(s, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- two.rest(key, &s) }()
	eventually(t, "the resumed stream", func() bool { return one.Resumed() == 1 })
	one.stop()
	if err := <-ended; err != nil || strings.Contains(s.text, "[DONE]") || !strings.Contains(s.text, "being restarted") {
		t.Errorf("the stream of a node that stopped = %s, %v, want it to end with that", s.text, err)
	}
	if r := two.get(s.location, key); r.status != 404 && r.status != 503 {
		t.Errorf("GET %s after its node went = %d %s, want 404 or 503", s.location, r.status, r.body)
	}
}

// A server that stops tells the callers that went on without a connection, and those that resumed: their streams end.
func TestResumeAndStop(t *testing.T) {
	t.Parallel()
	u := newNarrator(t)
	n := newSite(t, "drain_timeout: 1s\n"+lab(u.url, "lab/m")).start(t)
	s, err := n.cutAt(n.OwnerKey(), "x", fmt.Sprintf(resumableChat, "stop hold:6"), 1200)
	if err != nil || s.location == "" {
		t.Fatal(s, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.rest(n.OwnerKey(), &s) }()
	eventually(t, "the resumed stream", func() bool { return n.Resumed() == 1 })
	n.stop()
	<-ended
	if !u.canceled("stop hold:6") {
		t.Error("the call outlives the server")
	}
	if strings.Contains(s.text, "[DONE]") {
		t.Errorf("the stream of a server that stopped looks complete: %s", s.text)
	}
}
