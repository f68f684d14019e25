package app_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var updateMessages = flag.Bool("update-messages", false, "write testdata/messages.txtar anew")

// double is an upstream in two dialects that answers every call with the same text and keeps what it was sent.
type double struct {
	mu     sync.Mutex
	answer string // a status, and the body behind a line break
	asked  []string
}

func (d *double) say(answer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.asked = answer, nil
}

func (d *double) heard() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	said := "POST " + r.URL.Path
	if beta := r.Header.Get("Anthropic-Beta"); beta != "" {
		said += "\nanthropic-beta: " + beta
	}
	d.asked = append(d.asked, said+"\n"+string(body))
	head, text, _ := strings.Cut(d.answer, "\n")
	d.mu.Unlock()
	var status int
	fmt.Sscan(head, &status)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(text, "data:") || strings.HasPrefix(text, "event:") {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	w.WriteHeader(status)
	if cut, ok := strings.CutSuffix(text, "CUT\n"); ok {
		_, _ = io.WriteString(w, cut)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, text)
}

// twoDialects is a configuration with two upstreams at one address: lab/m in OpenAI's dialect, lab/claude in
// Anthropic's.
func twoDialects(url string) string {
	return fmt.Sprintf(`
providers:
  - {name: lab, kind: openai, base_url: %q}
  - {name: claude, kind: anthropic, base_url: %q, api_key: k}
models:
  - {id: lab/m, provider: lab, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: lab/thinks, provider: lab, plan: free, context_length: 100000, max_output: 9000, tool_calling: true, reasoning: true}
  - {id: lab/claude, provider: claude, upstream: claude-sonnet-4-5, plan: free, context_length: 100000, max_output: 9000, tool_calling: true, reasoning: true}
`, url+"/v1", url)
}

var ids = regexp.MustCompile(`[0-9a-f]{32}`)

// TestMessages plays the transcripts of testdata/messages.txtar: what a caller of the Messages API sends, what the
// upstream gets and says, and what the caller gets. Every call is settled once.
func TestMessages(t *testing.T) {
	t.Parallel()
	const file = "testdata/messages.txtar"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(data)
	cases := map[string]map[string]string{}
	var names []string
	for _, f := range archive.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if cases[name] == nil {
			cases[name] = map[string]string{}
			names = append(names, name)
		}
		cases[name][part] = string(f.Data)
	}
	up := &double{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	n := newSite(t, twoDialects(server.URL)).start(t)
	key := n.OwnerKey()
	out := &txtar.Archive{Comment: archive.Comment}
	for _, name := range names {
		c := cases[name]
		up.say(c["says"])
		before := settled(n.App)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.Addr()+"/v1/messages", strings.NewReader(c["sent"]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
		if strings.Contains(name, "beta") {
			req.Header.Set("Anthropic-Beta", "tomorrow-2027-01-01")
		}
		resp, err := n.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got := fmt.Sprintf("%d %s\n%s", resp.StatusCode, resp.Header.Get("Content-Type"), ids.ReplaceAllString(string(body), "ID"))
		if dropped := resp.Header.Get("X-Sluice-Dropped"); dropped != "" {
			got = "dropped: " + dropped + "\n" + got
		}
		if !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		heard := ids.ReplaceAllString(strings.Join(slices.Compact(up.heard()), "\n"), "ID")
		if heard != "" {
			heard += "\n"
		}
		if !*updateMessages && (heard != c["up"] || got != c["got"]) {
			t.Errorf("%s: the upstream got\n%swant\n%sthe caller got\n%swant\n%s", name, heard, c["up"], got, c["got"])
		}
		called := len(up.heard()) > 0 || resp.StatusCode == http.StatusOK
		if n := settled(n.App) - before; called && n != 1 || n > 1 {
			t.Errorf("%s: %d settlements, want one for a call", name, n)
		}
		checkMessageEvents(t, name, string(body), resp.Header.Get("Content-Type"))
		out.Files = append(out.Files, txtar.File{Name: name + "/sent", Data: []byte(c["sent"])})
		if c["says"] != "" {
			out.Files = append(out.Files, txtar.File{Name: name + "/says", Data: []byte(c["says"])}, txtar.File{Name: name + "/up", Data: []byte(heard)})
		}
		out.Files = append(out.Files, txtar.File{Name: name + "/got", Data: []byte(got)})
	}
	if *updateMessages {
		if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkMessageEvents checks the rules of a stream: its events are named after their type, blocks follow one another, and
// only a complete one ends with message_stop.
func checkMessageEvents(t *testing.T, name, body, contentType string) {
	t.Helper()
	if contentType != "text/event-stream" {
		if !json.Valid([]byte(body)) {
			t.Errorf("%s: %s is not JSON", name, body)
		}
		return
	}
	open, next, ended, failed, reason := -1, 0, false, false, false
	for i, event := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var kind, data string
		lines := strings.Split(event, "\n")
		if len(lines) != 2 {
			t.Errorf("%s: event %q has %d lines, want 2", name, event, len(lines))
			continue
		}
		kind, data = strings.TrimPrefix(lines[0], "event: "), strings.TrimPrefix(lines[1], "data: ")
		var w struct {
			Type  string
			Index int
		}
		if err := json.Unmarshal([]byte(data), &w); err != nil || w.Type != kind || ended || failed {
			t.Errorf("%s: event %q: %v, or it comes after the end", name, event, err)
		}
		if (kind == "message_start") != (i == 0) {
			t.Errorf("%s: event %d is %s", name, i, kind)
		}
		switch kind {
		case "content_block_start":
			if open >= 0 || w.Index != next {
				t.Errorf("%s: block %d starts while %d is open, want %d", name, w.Index, open, next)
			}
			open, next = w.Index, next+1
		case "content_block_delta", "content_block_stop":
			if w.Index != open {
				t.Errorf("%s: %s of block %d while %d is open", name, kind, w.Index, open)
			}
			if kind == "content_block_stop" {
				open = -1
			}
		case "message_delta":
			reason = true
		case "message_stop":
			ended = true
		case "error":
			failed = true
		}
	}
	if ended == failed || ended && (open >= 0 || !reason) || failed && reason {
		t.Errorf("%s: ended %t, failed %t, open block %d, stop reason %t", name, ended, failed, open, reason)
	}
	if !bytes.HasSuffix([]byte(body), []byte("\n\n")) {
		t.Errorf("%s: the last event is not complete", name)
	}
}
