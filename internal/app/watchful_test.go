package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watchful is an upstream that notes when it learns that nobody waits for its reply any more, and
// compares that with when the caller left.
type watchful struct {
	url   string
	serve *httptest.Server
	open  atomic.Int64 // calls being answered

	mu     sync.Mutex
	left   map[int64]time.Time // by call: when its caller hung up
	ended  map[int64]time.Time // by call: when it was told so
	lasted []time.Duration     // of calls of which both are known
}

func newWatchful(t *testing.T) *watchful {
	t.Helper()
	u := &watchful{left: map[int64]time.Time{}, ended: map[int64]time.Time{}}
	u.serve = httptest.NewServer(http.HandlerFunc(u.answer))
	u.url = u.serve.URL + "/v1"
	t.Cleanup(func() {
		u.serve.CloseClientConnections() // a call that was never canceled would keep Close waiting
		u.serve.Close()
	})
	return u
}

// closeIdle closes the connections that the gateway keeps for later calls.
func (u *watchful) closeIdle() { u.serve.CloseClientConnections() }

// callerLeft notes that the caller is about to hang up.
func (u *watchful) callerLeft(number int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left[number] = time.Now()
}

// check compares the calls of a wave and forgets them. None may have gone on for longer than the bound after its caller left.
func (u *watchful) check(t *testing.T, bound time.Duration) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for number, ended := range u.ended {
		left, ok := u.left[number]
		if !ok {
			t.Errorf("the upstream call %d was canceled, and its caller had not left", number)
			continue
		}
		lasted := ended.Sub(left)
		if lasted > bound {
			t.Errorf("the upstream call %d outlived its caller by %v, want %v at most", number, lasted, bound)
		}
		u.lasted = append(u.lasted, lasted)
	}
	clear(u.left)
	clear(u.ended)
}

// longest is by how much upstream calls outlived their callers: 1 for the longest, 0.5 the median.
func (u *watchful) longest(share float64) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.lasted) == 0 {
		return 0
	}
	slices.Sort(u.lasted)
	return u.lasted[int(share*float64(len(u.lasted)-1))].Round(10 * time.Microsecond)
}

func (u *watchful) answer(w http.ResponseWriter, r *http.Request) {
	u.open.Add(1)
	defer u.open.Add(-1)
	var req struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	// A body that breaks off is a caller that left before the call was made.
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if err := json.Unmarshal(raw, &req); err != nil || len(req.Messages) != 1 {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	number, behavior, _ := strings.Cut(req.Messages[0].Content, " ")
	call, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		http.Error(w, "the call has no number", http.StatusBadRequest)
		return
	}
	if err := u.behave(w, r, req.Stream, behavior); err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.ended[call] = time.Now()
	}
}

// flooding makes chunks large, and not the text, which would have to be counted.
var flooding = `,"logprobs":{"content":null,"padding":"` + strings.Repeat("x", 8<<10) + `"}`

// behave answers as asked. An error means that nobody waits for the answer any more.
func (u *watchful) behave(w http.ResponseWriter, r *http.Request, stream bool, behavior string) error {
	how, number, _ := strings.Cut(behavior, " ")
	words, _ := strconv.Atoi(number) // none where none are asked for
	switch {
	case how == "never":
		<-r.Context().Done()
		return r.Context().Err()
	case !stream:
		w.Header().Set("Content-Type", "application/json")
		_, err := fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":%d}}`,
			strings.Repeat("word ", words), words, words+3)
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(choices string) error {
		if _, err := fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":%s}\n\n", choices); err != nil {
			return err
		}
		w.(http.Flusher).Flush()
		return r.Context().Err()
	}
	if err := send(`[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`); err != nil {
		return err
	}
	for i := 1; i <= words || how == "endless" || how == "flood"; i++ {
		extra := ""
		if how == "flood" {
			extra = flooding
		}
		if err := send(`[{"index":0,"delta":{"content":"word "}` + extra + `,"finish_reason":null}]`); err != nil {
			return err
		}
		if how == "endless" && i%32 == 0 { // else it would have the processors to itself
			select {
			case <-r.Context().Done():
			case <-time.After(time.Millisecond):
			}
		}
	}
	if how == "pause" {
		<-r.Context().Done()
		return r.Context().Err()
	}
	if err := send(`[{"index":0,"delta":{},"finish_reason":"stop"}]`); err != nil {
		return err
	}
	if err := send(fmt.Sprintf(`[],"usage":{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":%d}`, words, words+3)); err != nil {
		return err
	}
	_, err := io.WriteString(w, "data: [DONE]\n\n")
	return err
}
