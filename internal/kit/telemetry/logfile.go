package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Rotation says when a log file is set aside, and how many of those are kept.
type Rotation struct {
	// MaxBytes and MaxAge are the size and the age at which a file is set aside. 0 means no limit.
	MaxBytes int64
	MaxAge   time.Duration
	// Keep is how many files are kept beside the current one.
	Keep int
}

// lookEvery is how often the file is compared with its name, see LogFile.moved.
const lookEvery = time.Second

// LogFile is a file that is set aside when it is large or old enough: sluice.log becomes
// sluice.log.20260301T120000.000Z, and a new one begins. It is used by one goroutine, that of an
// Outlet, so a slow disk makes nobody else wait.
type LogFile struct {
	path  string
	rules Rotation
	now   func() time.Time

	file   *os.File // nil if the last attempt to open it failed
	size   int64
	since  time.Time // when the file was begun
	looked time.Time
}

// OpenLogFile opens the file, or creates it. now is for tests; if nil, it is time.Now.
func OpenLogFile(path string, rules Rotation, now func() time.Time) (*LogFile, error) {
	if now == nil {
		now = time.Now
	}
	l := &LogFile{path: path, rules: rules, now: now}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open the log file: %w", err)
	}
	return l, nil
}

// open opens the file to append to it. Logs name accounts and addresses, so only the owner may read
// it.
func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // the first error is the one to report
		return err
	}
	l.file, l.size, l.looked = f, info.Size(), l.now()
	// The age of a file that an earlier process began is not known on every system. The last line that
	// it wrote is younger, so its time errs on the side of keeping lines together.
	if l.since = l.now(); l.size > 0 {
		l.since = info.ModTime()
	}
	return nil
}

// Write writes lines, and sets the file aside first if it is time. If that fails, the lines go to the
// old file: a log that is too large is better than none.
func (l *LogFile) Write(lines []byte) (int, error) {
	if l.file != nil && l.moved() {
		l.shut()
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.due(int64(len(lines))) {
		if err := l.rotate(); err != nil && l.file == nil {
			return 0, err
		}
	}
	n, err := l.file.Write(lines)
	l.size += int64(n)
	return n, err
}

// moved reports whether the name stands for another file now, or for none, because somebody else has
// set it aside, as logrotate does. It looks once a second.
func (l *LogFile) moved() bool {
	now := l.now()
	if now.Sub(l.looked) < lookEvery && now.After(l.looked) {
		return false
	}
	l.looked = now
	there, err := os.Stat(l.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	here, err := l.file.Stat()
	return err == nil && !os.SameFile(here, there)
}

// due reports whether the file must be set aside before more bytes are written. An empty one never
// is: a batch of lines may be larger than the limit.
func (l *LogFile) due(more int64) bool {
	return l.size > 0 && (l.rules.MaxBytes > 0 && l.size+more > l.rules.MaxBytes || l.rules.MaxAge > 0 && l.now().Sub(l.since) >= l.rules.MaxAge)
}

// asideFormat sorts by time, and is precise enough that two names rarely meet.
const asideFormat = "20060102T150405.000Z"

// rotate gives the file another name, begins a new one, and removes what is too much.
// The file is renamed while it is open, so no line is lost.
func (l *LogFile) rotate() error {
	aside := l.path + "." + l.now().UTC().Format(asideFormat)
	if _, err := os.Lstat(aside); err == nil {
		return fs.ErrExist // within the same millisecond; the next write tries again
	}
	if err := os.Rename(l.path, aside); err != nil {
		return err
	}
	l.shut()
	err := l.open()
	l.prune()
	return err
}

// shut closes the file. What was written is with the system already.
func (l *LogFile) shut() {
	_ = l.file.Close()
	l.file = nil
}

// Close closes the file, after the Outlet that writes to it.
func (l *LogFile) Close() {
	if l.file != nil {
		l.shut()
	}
}

// prune removes the oldest files that were set aside. It touches only names that rotate makes.
func (l *LogFile) prune() {
	dir, base := filepath.Dir(l.path), filepath.Base(l.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the next rotation tries again
	}
	var aside []string
	for _, e := range entries {
		if stamp, ok := strings.CutPrefix(e.Name(), base+"."); ok && e.Type().IsRegular() {
			if _, err := time.Parse(asideFormat, stamp); err == nil {
				aside = append(aside, e.Name())
			}
		}
	}
	slices.Sort(aside)
	for _, name := range aside[:max(len(aside)-l.rules.Keep, 0)] {
		_ = os.Remove(filepath.Join(dir, name)) // the next rotation tries again
	}
}
