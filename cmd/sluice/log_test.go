package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// logged is a server whose log and other output go to a pipe that the test reads, or does not.
type logged struct {
	t    *testing.T
	cmd  *exec.Cmd
	pipe *os.File // the end that is read
	url  string
}

// startLogged starts a server and reads its log until it is ready, and not one byte more than that
// takes.
func startLogged(t *testing.T, env ...string) *logged {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	l := &logged{t: t, pipe: read}
	l.cmd = exec.Command("sluice", "serve", "--data", filepath.Join(t.TempDir(), "data"))
	l.cmd.Stdout, l.cmd.Stderr = write, write
	l.cmd.Env = append(os.Environ(), append([]string{"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_METRICS_LISTEN=", "SLUICE_DISCOVER=false", "GORACE=" + quickExit}, env...)...)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		read.Close()
		if l.cmd.ProcessState == nil {
			_ = l.cmd.Process.Kill()
			_ = l.cmd.Wait()
		}
	})
	var seen bytes.Buffer
	if err := awaitReady(read, &seen); err != nil {
		t.Fatalf("the server did not start: %v\n%s", err, &seen)
	}
	l.url = readyURL(seen.String())
	return l
}

// flood sends requests whose lines in the log have about 500 bytes each. Every one must be answered.
func (l *logged) flood(requests int) {
	l.t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range requests / 8 {
				resp, err := client.Get(l.url + "/none/" + strings.Repeat("\u2028", 60)) // six bytes each in JSON
				if err != nil {
					l.t.Errorf("a request while nobody reads the log = %v, want a reply", err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

// end stops the server and checks that it ends as it should.
func (l *logged) end() {
	l.t.Helper()
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = l.cmd.Process.Kill() })
	defer timer.Stop()
	if err := l.cmd.Wait(); err != nil {
		l.t.Errorf("the server ended with %v, want exit code 0", err)
	}
}

// A reader of the log that has ended does not end the server.
func TestLogReaderGone(t *testing.T) {
	t.Parallel()
	l := startLogged(t)
	l.pipe.Close()
	l.flood(40)
	l.wantNote()
	l.end()
}

// A reader that has stopped reading holds up nobody. It finds out later what it has missed.
func TestLogReaderStalled(t *testing.T) {
	t.Parallel()
	l := startLogged(t)
	l.flood(4000) // 2 MB: more than a pipe and the buffer hold
	l.wantNote()
	rest := make(chan string)
	go func() {
		text, _ := io.ReadAll(l.pipe) // an error leaves the text incomplete
		rest <- string(text)
	}()
	l.end()
	if text := <-rest; !strings.Contains(text, "log lines were dropped") {
		t.Errorf("the rest of the log, %d bytes, does not say that lines are missing", len(text))
	}
}

// A reader that stays away cannot hold up the end either.
func TestLogReaderStaysAway(t *testing.T) {
	t.Parallel()
	l := startLogged(t)
	l.flood(4000)
	l.end()
}

// wantNote checks that /readyz tells of dropped lines.
func (l *logged) wantNote() {
	l.t.Helper()
	eventually(l.t, "a note about dropped lines in /readyz", func() bool {
		resp, err := http.Get(l.url + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK && bytes.Contains(body, []byte("log lines were dropped"))
	})
}

// The log goes to the configured file, which is set aside when it is large.
func TestLogFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.log")
	cmd := exec.Command("sluice", "serve", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = append(os.Environ(), "SLUICE_LISTEN=127.0.0.1:0", "SLUICE_METRICS_LISTEN=", "SLUICE_DISCOVER=false", "GORACE="+quickExit,
		"SLUICE_LOG_FILE="+file, "SLUICE_LOG_MAX_MIB=1", "SLUICE_LOG_KEEP=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &logged{t: t, cmd: cmd}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	eventually(t, "the log file", func() bool {
		text, _ := os.ReadFile(file) // it may not be there yet
		l.url = readyURL(string(text))
		return l.url != ""
	})
	l.flood(5000)
	l.end()
	if stderr.Len() > 0 {
		t.Errorf("with log.file, stderr = %q, want nothing", &stderr)
	}
	aside, err := filepath.Glob(file + ".2*")
	if err != nil || len(aside) != 1 {
		t.Fatalf("files beside the log = %q, %v, want one", aside, err)
	}
	for _, name := range append(aside, file) {
		if info, err := os.Stat(name); err != nil || info.Size() > 1<<20 {
			t.Errorf("%s: %v, want at most 1 MiB", name, fmt.Sprint(info.Size(), err))
		}
	}
}
