package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	segmentSize = 4 << 20
	syncEvery   = time.Second
	defaultMost = 1 << 30
	maxRecord   = 64 << 10

	// keepFor is how long a segment stays after it was last written to: a start rebuilds the windows of
	// the last minute from it.
	keepFor = time.Minute
	// maxAge is how old a segment may get before it is ended, if the database has all of it. What the
	// database was told to forget must not be found here again.
	maxAge = time.Hour
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
	wake chan struct{} // tells Run that the spare is in use

	files sync.Mutex // held to read segments and to remove them, so that appending need not wait; taken before mu

	mu        sync.Mutex
	segments  []*segment // oldest first; the last one is written to
	next      uint64     // number of the next one
	spare     *segment
	spareErr  error        // why there is none
	unwritten []Settlement // those that the disk did not take
	writeErr  error        // why
	frame     []byte
	records   int64 // not yet in the database
	blocked   atomic.Pointer[blockage]
}

// blockage is why nothing new should be admitted.
type blockage struct{ err error }

// OpenJournal opens the journal in a folder, with whatever an earlier process left in it.
func OpenJournal(dir string, opts *JournalOptions) (*Journal, error) {
	if opts == nil {
		opts = &JournalOptions{}
	}
	j := &Journal{dir: dir, opts: *opts, next: 1, wake: make(chan struct{}, 1)}
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
		number, ok := segmentNumber(f.Name())
		if !ok {
			continue
		}
		j.next = max(j.next, number+1)
		s, err := openSegment(filepath.Join(j.dir, f.Name()), number, os.O_RDWR)
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
	slices.SortFunc(j.segments, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	if err := j.readMark(); err != nil {
		return err
	}
	for _, s := range j.segments {
		if err := s.each(s.read, s.end, func(Settlement, int64) bool { j.records++; return true }); err != nil {
			return err
		}
	}
	return nil
}

// Append writes a settlement. When it returns nil, the settlement survives a kill. Otherwise it is kept
// in memory and tried again, and nothing new should be admitted meanwhile.
func (j *Journal) Append(s *Settlement) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segments) == 0 {
		return os.ErrClosed
	}
	defer j.judge()
	if err := j.write(s); err != nil {
		if !errors.Is(err, errTooLarge) {
			j.unwritten, j.writeErr = append(j.unwritten, *s), err
		}
		return err
	}
	if active := j.active(); j.opts.SyncEach {
		if err := active.file.Sync(); err != nil {
			return fmt.Errorf("sync the journal: %w", err)
		}
		active.dirty = false
	}
	return nil
}

func (j *Journal) write(s *Settlement) error {
	j.frame = appendRecord(append(j.frame[:0], make([]byte, frameHead)...), s)
	if len(j.frame) > maxRecord {
		return errTooLarge
	}
	if !j.active().fits(j.frame[frameHead:]) {
		if j.spare == nil {
			return fmt.Errorf("the journal is full: %w", j.spareErr)
		}
		j.turn()
	}
	if err := j.active().append(j.frame); err != nil {
		return err
	}
	j.records++
	return nil
}

// active is the segment that is written to.
func (j *Journal) active() *segment { return j.segments[len(j.segments)-1] }

// turn makes the spare the segment that is written to.
func (j *Journal) turn() {
	now := time.Now()
	j.active().ended, j.spare.begun = now, now
	j.segments = append(j.segments, j.spare)
	j.spare, j.spareErr = nil, errNoSpare
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

var (
	errNoSpare  = errors.New("the next part of it is still being prepared")
	errTooLarge = errors.New("the settlement is too large for the journal")
)

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
	if len(j.segments) == 0 {
		return // not open
	}
	active := j.active()
	switch {
	case len(j.unwritten) > 0:
		j.blocked.Store(&blockage{fmt.Errorf("%d settlements wait for the disk: %w", len(j.unwritten), j.writeErr)})
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
	return Backlog{Records: j.records + int64(len(j.unwritten)), Bytes: j.bytes(), Most: j.opts.MaxBytes}
}

// bytes is what waits for the database.
func (j *Journal) bytes() (n int64) {
	for _, s := range j.segments {
		n += s.end - s.read
	}
	return n
}

// Run syncs what was written, at most a second later, keeps a spare segment ready, and removes segments
// that are no longer needed.
func (j *Journal) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-j.wake:
		}
		if err := errors.Join(j.sync(), j.prepare(), j.retry(), j.sweep()); err != nil {
			report(err)
		}
	}
}

// sync brings what was written to the disk. The lock is not held meanwhile: appending goes on.
func (j *Journal) sync() error {
	j.mu.Lock()
	var dirty []*segment
	for _, s := range j.segments {
		if s.dirty {
			s.dirty = false
			dirty = append(dirty, s)
		}
	}
	j.mu.Unlock()
	var errs []error
	for _, s := range dirty {
		if err := s.file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, fmt.Errorf("sync the journal: %w", err))
			j.mu.Lock()
			s.dirty = true
			j.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// prepare makes the spare segment where there is none.
func (j *Journal) prepare() error {
	j.mu.Lock()
	have, number := j.spare != nil, j.next
	if !have {
		j.next++
	}
	j.mu.Unlock()
	if have {
		return nil
	}
	s, err := createSegment(filepath.Join(j.dir, fmt.Sprintf("%012d.journal", number)), number, j.opts.SegmentBytes)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spare, j.spareErr = s, err
	j.judge()
	return err
}

// retry writes what the disk did not take before.
func (j *Journal) retry() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.judge()
	for len(j.unwritten) > 0 {
		if err := j.write(&j.unwritten[0]); err != nil {
			j.writeErr = err
			return err
		}
		j.unwritten = j.unwritten[1:]
	}
	j.unwritten, j.writeErr = nil, nil
	return nil
}

// sweep removes the segments that neither the database nor a start needs any more.
func (j *Journal) sweep() error {
	j.files.Lock()
	defer j.files.Unlock()
	j.mu.Lock()
	if a := j.active(); a.end > 0 && a.read == a.end && j.spare != nil && time.Since(a.begun) > maxAge {
		j.turn()
	}
	n := 0
	for n < len(j.segments)-1 && j.segments[n].read == j.segments[n].end && time.Since(j.segments[n].ended) > keepFor {
		n++
	}
	old := slices.Clone(j.segments[:n])
	j.segments = slices.Delete(j.segments, 0, n)
	j.mu.Unlock()
	var errs []error
	for _, s := range old {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}

// Close writes and syncs what it can, and closes the journal.
func (j *Journal) Close() error { return errors.Join(j.retry(), j.sync(), j.closeFiles()) }

func (j *Journal) closeFiles() error {
	j.files.Lock()
	defer j.files.Unlock()
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
