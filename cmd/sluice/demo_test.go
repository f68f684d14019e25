package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// A demonstration prints links that work and a key that calls, and leaves nothing behind when it ends.
func TestDemo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hung := time.AfterFunc(patience, func() { // what it waits for is all there is to know
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		panic("sluice demo hangs")
	})
	defer hung.Stop()
	t.Setenv("TMPDIR", t.TempDir())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, &program{args: []string{"demo", "--listen", "127.0.0.1:0", "--size", "0.05"}, stdout: w, stderr: io.Discard, machine: t.TempDir()})
		w.Close()
	}()
	var text strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan() && !strings.HasPrefix(lines.Text(), "Press Ctrl-C"); {
		text.WriteString(lines.Text() + "\n")
	}
	links := regexp.MustCompile(`(?m)^  .*  (http://\S+)$`).FindAllStringSubmatch(text.String(), -1)
	if len(links) < 5 {
		t.Fatalf("sluice demo printed %d links, want 5:\n%s", len(links), text.String())
	}
	for _, l := range links[3:] { // those that need no browser
		if resp, err := http.Get(l[1]); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s = %v, %v", l[1], resp, err)
		} else {
			resp.Body.Close()
		}
	}
	call := regexp.MustCompile(`curl (\S+) -H "(\w+): (.*?)"`).FindStringSubmatch(text.String())
	if call == nil {
		t.Fatalf("sluice demo printed no call:\n%s", text.String())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call[1], strings.NewReader(`{"model": "fast", "messages": [{"role": "user", "content": "What is 17 * 23 + 4?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(call[2], call[3])
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.Body.Close(); !strings.Contains(string(body), "395") {
		t.Errorf("the call was answered with %s: %s", resp.Status, body)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if got := <-code; got != 0 {
		t.Errorf("sluice demo exits with %d, want 0", got)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("the demonstration left %v behind, %v", left, err)
	}
}
