package telemetry_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/telemetry"
)

// logs is a folder with a log file, and a clock.
type logs struct {
	t    *testing.T
	dir  string
	now  time.Time
	file *telemetry.LogFile
}

func newLogs(t *testing.T, rules telemetry.Rotation) *logs {
	t.Helper()
	l := &logs{t: t, dir: t.TempDir(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	if l.file, err = telemetry.OpenLogFile(filepath.Join(l.dir, "sluice.log"), rules, func() time.Time { return l.now }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.file.Close)
	return l
}

// write writes a line a second after the last.
func (l *logs) write(line string) {
	l.t.Helper()
	l.now = l.now.Add(time.Second)
	if n, err := l.file.Write([]byte(line + "\n")); err != nil || n != len(line)+1 {
		l.t.Fatalf("Write(%q) = %d, %v", line, n, err)
	}
}

// files returns the files of the folder in the order of their names, each with its lines.
func (l *logs) files() (out []string) {
	l.t.Helper()
	names, err := filepath.Glob(l.dir + "/*")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			l.t.Fatal(err)
		}
		out = append(out, filepath.Base(name)+": "+strings.Join(strings.Fields(string(text)), " "))
	}
	return out
}

func (l *logs) want(want ...string) {
	l.t.Helper()
	if got := l.files(); !slices.Equal(got, want) {
		l.t.Errorf("files =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRotationBySize(t *testing.T) {
	t.Parallel()
	l := newLogs(t, telemetry.Rotation{MaxBytes: 10, Keep: 2})
	for _, other := range []string{"sluice.log.old", "sluice.log.1", "other.log.20200101T000000.000Z"} {
		if err := os.WriteFile(filepath.Join(l.dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"aaaa", "bbbb", "cccc", "dddddddddddddd", "eeee", "ffff", "gggg"} {
		l.write(line)
	}
	// The oldest, with aaaa and bbbb, is gone. Files that somebody else made stay.
	l.want("other.log.20200101T000000.000Z: ", "sluice.log: gggg", "sluice.log.1: ",
		"sluice.log.20260301T120005.000Z: dddddddddddddd", "sluice.log.20260301T120007.000Z: eeee ffff", "sluice.log.old: ")
	info, err := os.Stat(filepath.Join(l.dir, "sluice.log"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v, want 0600: logs name accounts", info.Mode(), err)
	}
}

func TestRotationByAge(t *testing.T) {
	t.Parallel()
	l := newLogs(t, telemetry.Rotation{MaxAge: time.Hour, Keep: 5})
	l.write("one")
	l.now = l.now.Add(30 * time.Minute)
	l.write("two")
	l.now = l.now.Add(30 * time.Minute)
	l.write("three")
	l.want("sluice.log: three", "sluice.log.20260301T130003.000Z: one two")
}

// Nothing is rotated without limits, and keep: 0 keeps nothing.
func TestRotationLimits(t *testing.T) {
	t.Parallel()
	l := newLogs(t, telemetry.Rotation{Keep: 1})
	l.write("one")
	l.now = l.now.Add(10000 * time.Hour)
	l.write("two")
	l.want("sluice.log: one two")
	l = newLogs(t, telemetry.Rotation{MaxBytes: 1})
	l.write("one")
	l.write("two")
	l.want("sluice.log: two")
}

// logrotate moves the file away, and people delete it. Both get a new one.
func TestLogFileMoved(t *testing.T) {
	t.Parallel()
	l := newLogs(t, telemetry.Rotation{})
	l.write("one")
	path := filepath.Join(l.dir, "sluice.log")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.write("two")
	l.want("sluice.log: two", "sluice.log.1: one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.write("three")
	l.want("sluice.log: three", "sluice.log.1: one")
}

// A folder that is gone is an error, which an Outlet counts. When it is back, so is the log.
func TestLogFileUnwritable(t *testing.T) {
	t.Parallel()
	l := newLogs(t, telemetry.Rotation{})
	l.write("one")
	if err := os.RemoveAll(l.dir); err != nil {
		t.Fatal(err)
	}
	l.now = l.now.Add(time.Minute)
	if _, err := l.file.Write([]byte("two\n")); err == nil {
		t.Error("Write without a folder = nil, want an error")
	}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.write("three")
	l.want("sluice.log: three")
	if _, err := telemetry.OpenLogFile(filepath.Join(l.dir, "none", "x"), telemetry.Rotation{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenLogFile in no folder = %v, want %v", err, fs.ErrNotExist)
	}
}
