package telemetry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/telemetry"
)

// reader is what a log is written to: it may stall, fail, or take only a part of what it gets.
type reader struct {
	mu   sync.Mutex
	got  bytes.Buffer
	take func(p []byte) (int, error) // nil: everything
}

func (r *reader) Write(p []byte) (int, error) {
	n, err := len(p), error(nil)
	if r.take != nil {
		n, err = r.take(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got.Write(p[:n])
	return n, err
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.String()
}

// A reader that stops reading stops nobody else. When it reads again, it gets what there was room for,
// and a line that says how much is missing.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		r := &reader{take: func(p []byte) (int, error) { <-resume; return len(p), nil }}
		log := telemetry.OpenLog(r, true, slog.LevelInfo)
		long := strings.Repeat("x", 1000)
		const lines = 5000 // of more than 1,000 bytes, and 1 MiB may wait
		for range lines {
			log.Info("line", "text", long)
		}
		for range lines {
			(&telemetry.Event{Path: long, Status: 200}).Log(t.Context(), log.Logger, 0)
		}
		dropped, last := log.Dropped()
		if dropped < lines || time.Since(last) > time.Second {
			t.Errorf("Dropped() = %d, %v, want more than %d, just now", dropped, last, lines)
		}
		if note := log.DroppedNote(); !strings.HasPrefix(note, fmt.Sprintf("%d log lines were dropped", dropped)) {
			t.Errorf("DroppedNote() = %q, want %d lines", note, dropped)
		}
		close(resume)
		synctest.Wait()
		log.Close()
		dropped, _ = log.Dropped()
		got := strings.Count(r.text(), "\n") - 1 // the note
		if int64(got)+dropped != 2*lines {
			t.Errorf("%d lines were read and %d dropped, want %d together", got, dropped, 2*lines)
		}
		if want := fmt.Sprintf(`"lines":%d}`, dropped); !strings.Contains(r.text(), want) {
			t.Errorf("the log has no line with %s", want)
		}
	})
}

// A reader that never reads again delays the end by two seconds at most.
func TestReaderNeverReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		r := &reader{take: func(p []byte) (int, error) { <-resume; return len(p), nil }}
		begun := time.Now()
		telemetry.Tell(r, "Welcome.\n")
		log := telemetry.OpenLog(r, false, slog.LevelInfo)
		log.Info("line")
		log.Close()
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("Tell and Close took %v, want 2s each", took)
		}
		close(resume) // the bubble ends when its goroutines have
	})
}

// A reader that has gone is an error for every write. Lines are counted, and a new reader, or a disk
// with room again, gets whole lines.
func TestBrokenReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		log := telemetry.OpenLog(r, false, slog.LevelInfo)
		say := func(text string) { log.Info(text); synctest.Wait() }
		say("first")
		r.take = func([]byte) (int, error) { return 7, io.ErrShortWrite } // a disk that is full
		say("second")
		r.take = func([]byte) (int, error) { return 0, errors.New("broken pipe") }
		say("third")
		say("fourth")
		r.take = nil
		say("fifth")
		log.Close()
		lines := strings.Split(strings.TrimSpace(r.text()), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0], "first") || lines[1] != "time=20" || !strings.Contains(lines[2], "fifth") || !strings.Contains(lines[3], "lines=3") {
			t.Errorf("the log = %q, want first, the beginning of second, fifth, and a note about 3 lines", lines)
		}
		if n, _ := log.Dropped(); n != 3 {
			t.Errorf("Dropped() = %d, want 3", n)
		}
	})
}

// The last warnings and errors are kept for "sluice debug", with their attributes.
func TestProblems(t *testing.T) {
	t.Parallel()
	log := telemetry.OpenLog(io.Discard, false, slog.LevelError) // whatever the level
	defer log.Close()
	if got := log.Problems(); got != nil {
		t.Errorf("Problems() = %q, want none", got)
	}
	with := log.With("part", "mail")
	for i := range 150 {
		with.Info("not this")
		with.Error("it broke", "n", i)
	}
	got := log.Problems()
	if len(got) != 100 || !strings.HasSuffix(got[0], `"level":"ERROR","msg":"it broke","part":"mail","n":50}`) || !strings.Contains(got[99], `"n":149`) {
		t.Errorf("Problems() = %d lines from %q, want the last 100", len(got), got[:min(len(got), 1)])
	}
}

// BenchmarkLog is the cost of one request's line in a server, with its reader behind an Outlet.
func BenchmarkLog(b *testing.B) {
	log := telemetry.OpenLog(io.Discard, true, slog.LevelInfo)
	defer log.Close()
	benchmarkEvents(b, log.Logger)
}

func TestTraceID(t *testing.T) {
	t.Parallel()
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for header, want := range map[string]string{
		"00-" + id + "-" + parent + "-01":                       id,
		"00-" + id + "-" + parent + "-00":                       id,
		"cc-" + id + "-" + parent + "-01":                       id, // a later version
		"cc-" + id + "-" + parent + "-01-more":                  id,
		"":                                                      "",
		"00-" + id + "-" + parent:                               "",
		"00-" + id + "-" + parent + "-01-more":                  "", // version 00 has no more
		"cc-" + id + "-" + parent + "-01more":                   "",
		"ff-" + id + "-" + parent + "-01":                       "",
		"00-" + strings.ToUpper(id) + "-" + parent + "-01":      "",
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01":  "",
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":      "",
		"00-" + strings.Repeat("\n", 32) + "-" + parent + "-01": "",
		"00-" + id + "-" + parent + "-0g":                       "",
		"00_" + id + "-" + parent + "-01":                       "",
		"0x-" + id + "-" + parent + "-01":                       "",
		strings.Repeat("-", 55):                                 "",
	} {
		if got := telemetry.TraceID(header); got != want {
			t.Errorf("TraceID(%q) = %q, want %q", header, got, want)
		}
	}
}
