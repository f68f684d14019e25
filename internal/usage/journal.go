package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	segmentSize = 4 << 20
	syncEvery   = time.Second
	defaultMost = 1 << 30
	maxRecord   = 64 << 10
)

// JournalOptions are the choices of OpenJournal; the zero value is the default.
type JournalOptions struct {
	// SyncEach makes every settlement survive a power cut, at the price of a disk write each.
	// Otherwise they are synced in groups, at most a second apart.
	SyncEach bool
	// MaxBytes bounds what waits for the database. Default 1 GiB.
	MaxBytes int64
	// SegmentBytes is the size of a file. Default 4 MiB.
	SegmentBytes int64
}

// Journal keeps settlements on disk from the moment a reply ends until the database has them. What
// Append has returned survives the death of the process.
//
// There is always a spare segment whose room has been taken from the disk already, so that what was
// admitted can be settled; while none can be made, Ready says so and nothing new should be admitted.
type Journal struct {
	dir  string
	opts JournalOptions

	mu       sync.Mutex
	segments []*segment // oldest first; the last one is written to
	spare    *segment
	spareErr error // why there is none
	dirty    bool
	frame    []byte
	records  int64         // not yet in the database
	used     chan struct{} // tells Run that the spare is in use
	blocked  atomic.Pointer[blockage]
}

// blockage is why nothing new should be admitted.
type blockage struct{ err error }

// OpenJournal opens the journal in a folder, with whatever an earlier process left in it.
func OpenJournal(dir string, opts *JournalOptions) (*Journal, error) {
	if opts == nil {
		opts = &JournalOptions{}
	}
	j := &Journal{dir: dir, opts: *opts, used: make(chan struct{}, 1)}
	if j.opts.MaxBytes == 0 {
		j.opts.MaxBytes = defaultMost
	}
	if j.opts.SegmentBytes == 0 {
		j.opts.SegmentBytes = segmentSize
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal's folder: %w", err)
	}
	if err := j.openSegments(); err != nil {
		return nil, errors.Join(err, j.closeFiles())
	}
	if len(j.segments) == 0 {
		if err := j.prepare(); err != nil {
			return nil, fmt.Errorf("begin the journal: %w", err)
		}
		j.segments, j.spare = []*segment{j.spare}, nil
	}
	_ = j.prepare() // kept in spareErr; Run tries again
	return j, nil
}

func (j *Journal) openSegments() error {
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return fmt.Errorf("read the journal's folder: %w", err)
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".journal")
		number, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		s, err := openSegment(filepath.Join(j.dir, f.Name()), number)
		if err != nil {
			return fmt.Errorf("open the journal: %w", err)
		}
		if s.end == 0 { // a spare, or one that was being made
			if err := s.remove(); err != nil {
				return err
			}
			continue
		}
		j.segments = append(j.segments, s)
	}
	slices.SortFunc(j.segments, func(a, b *segment) int { return int(int64(a.number) - int64(b.number)) })
	j.readMark()
	for _, s := range j.segments {
		if err := j.each(s, s.read, func(Settlement, int64) bool { j.records++; return true }); err != nil {
			return err
		}
	}
	return nil
}

// Append writes a settlement. When it returns, the settlement survives a kill.
func (j *Journal) Append(s *Settlement) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.frame = appendRecord(append(j.frame[:0], make([]byte, frameHead)...), s)
	if len(j.frame) > maxRecord {
		return errors.New("a settlement too large for the journal")
	}
	active := j.segments[len(j.segments)-1]
	if !active.fits(j.frame[frameHead:]) {
		if j.spare == nil {
			return fmt.Errorf("the journal is full: %w", j.spareErr)
		}
		if err := active.file.Sync(); err != nil {
			return fmt.Errorf("sync the journal: %w", err)
		}
		active = j.spare
		j.segments, j.spare, j.spareErr = append(j.segments, active), nil, errNoSpare
		select {
		case j.used <- struct{}{}:
		default:
		}
	}
	if err := active.append(j.frame); err != nil {
		return err
	}
	j.records++
	j.dirty = true
	j.judge()
	if j.opts.SyncEach {
		if err := active.file.Sync(); err != nil {
			return fmt.Errorf("sync the journal: %w", err)
		}
		j.dirty = false
	}
	return nil
}

var errNoSpare = errors.New("the next part of it is still being prepared")

// Ready reports whether what is admitted now can be settled: an error says why not. It takes no lock,
// since every request asks.
func (j *Journal) Ready() error {
	if b := j.blocked.Load(); b != nil {
		return b.err
	}
	return nil
}

// judge decides what Ready says. A spare that is only just being made is no reason to stop as long as
// the present segment is not half full.
func (j *Journal) judge() {
	active := j.segments[len(j.segments)-1]
	switch {
	case j.bytes() > j.opts.MaxBytes:
		j.blocked.Store(&blockage{fmt.Errorf("%d settlements wait for the database, the most the journal may hold", j.records)})
	case j.spare == nil && active.size-active.end < j.opts.SegmentBytes/2:
		j.blocked.Store(&blockage{fmt.Errorf("the journal cannot grow: %w", j.spareErr)})
	default:
		j.blocked.Store(nil)
	}
}

// Backlog is how much waits for the database, and how much may.
type Backlog struct {
	Records int64
	Bytes   int64
	Most    int64
}

// Backlog tells how much waits for the database.
func (j *Journal) Backlog() Backlog {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Backlog{Records: j.records, Bytes: j.bytes(), Most: j.opts.MaxBytes}
}

// bytes is what waits for the database.
func (j *Journal) bytes() (n int64) {
	for _, s := range j.segments {
		n += s.end - s.read
	}
	return n
}

// Mark is how far a batch reaches.
type Mark struct {
	segment uint64
	offset  int64
	records int64
}

// Batch returns up to most of the oldest settlements that are not in the database, and the mark to
// give to Commit once they are.
func (j *Journal) Batch(most int) ([]Settlement, Mark, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var batch []Settlement
	var m Mark
	for _, s := range j.segments {
		err := j.each(s, s.read, func(r Settlement, end int64) bool {
			batch = append(batch, r)
			m = Mark{segment: s.number, offset: end, records: int64(len(batch))}
			return len(batch) < most
		})
		if err != nil {
			return nil, Mark{}, err
		}
		if len(batch) == most {
			break
		}
	}
	return batch, m, nil
}

// Commit forgets what the database has.
func (j *Journal) Commit(m Mark) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records -= m.records
	j.advance(m)
	errs := []error{j.writeMark(m)}
	for len(j.segments) > 1 && j.segments[0].read == j.segments[0].end {
		errs = append(errs, j.segments[0].remove())
		j.segments = j.segments[1:]
	}
	j.judge()
	return errors.Join(errs...)
}

// advance notes that the database has everything up to the mark.
func (j *Journal) advance(m Mark) {
	for _, s := range j.segments {
		switch {
		case s.number < m.segment:
			s.read = s.end
		case s.number == m.segment:
			s.read = min(m.offset, s.end)
		}
	}
}

// The mark is also kept in a file, so that a restart does not offer the database again what it has. It
// may be older than the truth: settlements are stored once, however often they are offered.
const markFile = "committed"

func (j *Journal) writeMark(m Mark) error {
	path := filepath.Join(j.dir, markFile)
	if err := os.WriteFile(path+".new", fmt.Appendf(nil, "%d %d\n", m.segment, m.offset), 0o600); err != nil {
		return fmt.Errorf("write the journal's mark: %w", err)
	}
	return os.Rename(path+".new", path)
}

func (j *Journal) readMark() {
	raw, err := os.ReadFile(filepath.Join(j.dir, markFile))
	var m Mark
	if err != nil {
		return
	}
	if _, err := fmt.Sscanf(string(raw), "%d %d", &m.segment, &m.offset); err == nil {
		j.advance(m)
	}
}

// Since returns the settlements made at or after a time that the journal still has, whether the
// database has them or not.
func (j *Journal) Since(at time.Time) ([]Settlement, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Settlement
	for _, s := range j.segments {
		err := j.each(s, 0, func(r Settlement, _ int64) bool {
			if !r.At.Add(r.Latency).Before(at) {
				out = append(out, r)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// each reads the records of a segment from an offset on.
func (j *Journal) each(s *segment, from int64, yield func(r Settlement, end int64) bool) error {
	for at := from; at < s.end; {
		raw, err := s.at(at)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		at += frameHead + int64(len(raw))
		r, err := parseRecord(raw)
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		if !yield(r, at) {
			return nil
		}
	}
	return nil
}

// Run syncs what was written, at most a second later, and keeps a spare segment ready.
func (j *Journal) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-j.used:
		}
		if err := j.sync(); err != nil {
			report(err)
		}
		if err := j.prepare(); err != nil {
			report(err)
		}
	}
}

// sync brings what was written to the disk. The lock is not held meanwhile: appending goes on.
func (j *Journal) sync() error {
	j.mu.Lock()
	active, dirty := j.segments[len(j.segments)-1], j.dirty
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := active.file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("sync the journal: %w", err)
	}
	return nil
}

// prepare makes the spare segment where there is none.
func (j *Journal) prepare() error {
	j.mu.Lock()
	have := j.spare != nil
	number := uint64(1)
	if n := len(j.segments); n > 0 {
		number = j.segments[n-1].number + 1
	}
	j.mu.Unlock()
	if have {
		return nil
	}
	s, err := createSegment(filepath.Join(j.dir, fmt.Sprintf("%012d.journal", number)), number, j.opts.SegmentBytes)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spare, j.spareErr = s, err
	if len(j.segments) > 0 {
		j.judge()
	}
	return err
}

// Close syncs and closes the journal.
func (j *Journal) Close() error { return errors.Join(j.sync(), j.closeFiles()) }

func (j *Journal) closeFiles() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, s := range j.segments {
		errs = append(errs, s.file.Close())
	}
	if j.spare != nil {
		errs = append(errs, j.spare.remove())
	}
	j.segments, j.spare = nil, nil
	return errors.Join(errs...)
}
