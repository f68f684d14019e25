package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
)

const (
	segmentSize = 4 << 20     // about twenty thousand settlements
	syncEvery   = time.Second // what a power cut can lose; see docs/accounting.md#the-path-of-a-settlement
	defaultMost = 1 << 30     // about five million settlements
	// maxRecord bounds a record with its head. A usual one has about 200 bytes, so a larger one is a
	// mistake of ours. It is logged and not written.
	maxRecord = 64 << 10

	// keepFor is how long a segment stays after it was last written to. A start rebuilds the rate
	// limits of the last minute from it.
	keepFor = time.Minute
	// maxAge is when a segment that the database has completely is ended, so that it can be deleted.
	// Otherwise the journal of a quiet server would hold for months what the database has deleted
	// because of its age.
	maxAge = time.Hour
)

// JournalOptions are the choices of OpenJournal; the zero value is the default.
type JournalOptions struct {
	// SyncEach makes every settlement survive a power cut, at the cost of a disk write for each.
	// Otherwise Run syncs them in groups, at most a second apart.
	SyncEach bool
	// MaxBytes bounds what waits for the database: beyond it, Ready returns an error. Default 1 GiB.
	MaxBytes int64
	// SegmentBytes is the size of a file. Default 4 MiB.
	SegmentBytes int64
	// Damaged is called with each damage when it is found, by OpenJournal or by whoever reads. It must not
	// use the journal. Default: nothing is called; Damage returns them, too.
	Damaged func(Damage)
	// Notary ends the statements of receipts, in the order of the journal. Default: there are no receipts.
	Notary Notary
	// Sync makes what was written to a file survive a power cut; for tests. Default (*os.File).Sync.
	Sync func(*os.File) error
}

// Journal holds settlements on disk from the end of a reply until the database has them. A
// settlement for which Append returned nil survives the death of the process.
//
// The journal is a sequence of segments. Append writes to the last one; Batch reads from the first
// and Commit moves the read position; Run deletes segments that have been read. There is always a
// spare segment whose disk space is reserved already, so that every admitted call can be settled.
// While no spare can be made, Ready returns an error and no new call should be admitted.
//
// Settlements are numbered, and each is chained to the one before it. A segment in which something is
// unreadable or missing is kept aside, and a new one takes its place with all that can be read. See
// damage.go.
type Journal struct {
	dir  string
	opts JournalOptions
	wake chan struct{} // of size 1; tells Run that the spare is in use, or that a sync failed

	// files is held while segments are read or removed. Reading takes long, so it must not hold mu,
	// which Append needs. Whoever needs both locks takes files first.
	files sync.Mutex

	// mu guards the fields below, except blocked, and the fields of every segment. No file is read
	// or synced under it, except by Append with SyncEach.
	mu        sync.Mutex
	segments  []*segment   // oldest first; the last one is written to; empty once closed
	next      uint64       // number of the next segment
	spare     *segment     // nil while it is being made, or cannot be
	spareErr  error        // why spare is nil
	unwritten []Settlement // settlements that the disk refused, oldest first; Run retries them
	writeErr  error        // why it refused them
	syncErr   error        // why a segment whose sync failed could not be written again; nil if none waits for that
	frame     []byte       // memory for one record, reused by each write
	last      link         // the last frame that was written; the next one follows it
	missing   link         // if known, the last frame in the files: a frame that describes the gap up to last comes next
	committed uint64       // number of the last settlement that the database has
	synced    uint64       // number up to which every settlement is known to be on disk
	noted     uint64       // what the file with the mark says of synced
	damage    []Damage     // not acknowledged, oldest first

	// blocked is what Ready returns; nil if calls may be admitted. judge writes it under mu, and
	// Ready reads it without a lock.
	blocked atomic.Pointer[blockage]
}

// blockage is the reason why no call should be admitted.
type blockage struct{ err error }

// OpenJournal opens the journal in a folder, with whatever an earlier process left there. It makes
// the folder if it is missing. Only one process may use it: the lock on the data folder sees to
// that. opts may be nil.
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
	if j.opts.Sync == nil {
		j.opts.Sync = (*os.File).Sync
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal's folder: %w", err)
	}
	if err := j.openSegments(); err != nil {
		return nil, errors.Join(err, j.closeFiles())
	}
	if len(j.segments) == 0 || j.active().sealed {
		if err := j.prepare(); err != nil {
			return nil, errors.Join(fmt.Errorf("create the journal: %w", err), j.closeFiles())
		}
		j.segments, j.spare = append(j.segments, j.spare), nil
	}
	_ = j.prepare() // the error is kept in spareErr, where Ready sees it; Run tries again
	// An older program would apply its own mark to whatever it finds under the same name later.
	_ = os.Remove(filepath.Join(dir, oldMarkFile))
	return j, nil
}

// openSegments opens the segments in the folder, mends those that are damaged, applies the mark, and
// counts what waits for the database. Nothing else uses the journal yet, so it takes no lock.
func (j *Journal) openSegments() (err error) {
	if j.segments, err = segmentsIn(j.dir, os.O_RDWR); err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if n := len(j.segments); n > 0 {
		j.next = j.segments[n-1].number + 1
	}
	mark, err := readMark(j.dir)
	if err != nil {
		return err
	}
	j.committed, j.synced, j.noted = mark.committed, mark.written, mark.written
	if j.damage, err = readDamage(j.dir); err != nil {
		return err
	}
	floor := uint64(floorless)
	if mark.known {
		floor = mark.committed
	}
	var room []byte
	var last link // of the segments of format 2
	all := j.segments
	torn := false
	for i, s := range all {
		if i+1 < len(all) {
			s.sealed, s.last = true, all[i+1].follows()
		}
		if room, err = s.content(room); err != nil {
			return fmt.Errorf("open the journal: %w", err)
		}
		if last, err = j.admit(s, room, last, floor, mark.written); err != nil {
			return err
		}
		s.dirty = !s.old // the process that wrote it may have died before it synced it
		torn = s.torn
	}
	for _, s := range all {
		if s.end == 0 { // a spare, one that was being made, or one of which nothing is left
			if err := s.remove(); err != nil {
				return err
			}
		}
	}
	j.segments = slices.DeleteFunc(all, func(s *segment) bool { return s.end == 0 })
	j.resume(last, mark, torn)
	return nil
}

// admit examines a segment that an earlier process left, and mends it. It returns the last frame of it and
// of those before it.
func (j *Journal) admit(s *segment, data []byte, last link, floor, written uint64) (link, error) {
	found := scan(data, s.old, last, floor, nil)
	s.end = found.end
	if len(found.gaps) > 0 {
		var err error
		if found.last, err = j.mend(s, data, last, floor, written); err != nil {
			return last, err
		}
	}
	if s.old {
		found.last = last // it is not part of the chain
	}
	s.last, s.waiting, s.read = found.last, 0, 0
	err := s.each(0, s.end, func(_ Settlement, seq uint64, end int64) bool {
		if s.old || seq > j.committed {
			s.waiting++
		} else {
			s.read = end
		}
		return true
	})
	if s.waiting == 0 {
		s.read = s.end
	}
	return found.last, err
}

// resume decides with which number and after which frame the journal continues. Settlements of which
// the mark says that they had been written, and which no file has, are missing.
func (j *Journal) resume(last link, m mark, torn bool) {
	j.last = last
	if seq := max(last.seq, m.committed, m.written); seq != last.seq {
		if lost := seq - max(last.seq, m.committed); lost > 0 && !torn { // a torn end was reported already
			j.report(Damage{What: "the newest settlements are not in any file", Lost: int64(lost), Numbers: []Range{{seq - lost + 1, seq}}})
		}
		if j.missing = last; !last.known {
			j.missing = link{seq: m.committed, known: true}
		}
		j.last = link{seq: seq, known: true}
	}
	j.synced = max(m.committed, m.written) // the rest may be in the memory of the system only; the first sync finds out
}

// Append writes a settlement. If it returns nil, the settlement survives a kill of the process, and
// with SyncEach a power cut. If the disk refuses it, Append keeps it in memory for Run to retry, and
// Ready returns an error until it is written. A settlement that is too large is never written.
func (j *Journal) Append(s *Settlement) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segments) == 0 {
		return os.ErrClosed
	}
	defer j.judge()
	if s.Receipt != nil {
		j.opts.Notary.Link(s)
	}
	if err := j.write(s); err != nil {
		if !errors.Is(err, errTooLarge) {
			j.unwritten, j.writeErr = append(j.unwritten, *s), err
		}
		return err
	}
	if j.opts.SyncEach {
		return j.syncActive()
	}
	return nil
}

// write encodes a settlement and appends it to the active segment, or to the spare if that is full.
// The caller holds mu.
func (j *Journal) write(s *Settlement) error {
	j.frame = appendRecord(append(j.frame[:0], make([]byte, frameHead)...), s)
	if len(j.frame) > maxRecord {
		return errTooLarge
	}
	if j.missing.known {
		if err := j.put(resumeFrame(j.missing, j.last)); err != nil {
			return err
		}
		j.missing = link{}
	}
	next := seal(j.frame, kindSettlement, j.last, j.last.seq+1)
	if err := j.put(j.frame); err != nil {
		return err
	}
	j.last, j.active().last = next, next
	j.active().waiting++
	return nil
}

// put appends a frame to the active segment, or to the spare if that is full. The caller holds mu.
func (j *Journal) put(frame []byte) error {
	if !j.active().fits(len(frame)) {
		if j.spare == nil {
			return fmt.Errorf("the journal is full: %w", j.spareErr)
		}
		j.turn()
	}
	return j.active().append(frame)
}

// active returns the segment that is written to. There is one unless the journal is closed.
func (j *Journal) active() *segment { return j.segments[len(j.segments)-1] }

// turn makes the spare, which must not be nil, the active segment and tells Run to make a new
// spare. The caller holds mu.
func (j *Journal) turn() {
	now := time.Now()
	j.active().ended, j.spare.begun = now, now
	j.segments = append(j.segments, j.spare)
	j.spare, j.spareErr = nil, errNoSpare
	j.rouse()
}

// rouse makes Run do its work now.
func (j *Journal) rouse() { pace.Wake(j.wake) }

var (
	errNoSpare  = errors.New("the next segment is still being created")
	errTooLarge = errors.New("the settlement is too large for the journal")
)

// Ready returns nil if a call that is admitted now can be settled, and otherwise why it cannot. It
// takes no lock, because every request calls it.
func (j *Journal) Ready() error {
	if b := j.blocked.Load(); b != nil {
		return b.err
	}
	return nil
}

// judge decides what Ready returns. The caller holds mu. A missing spare does not matter while the
// active segment has room for half a segment, about ten thousand calls: after turn, Run makes the
// next spare in that time.
func (j *Journal) judge() {
	if len(j.segments) == 0 {
		return // not open
	}
	active := j.active()
	room := active.size - active.end
	if active.sealed {
		room = 0
	}
	switch {
	case len(j.unwritten) > 0:
		j.blocked.Store(&blockage{fmt.Errorf("%d settlements wait for the disk: %w", len(j.unwritten), j.writeErr)})
	case j.syncErr != nil:
		j.blocked.Store(&blockage{fmt.Errorf("the disk does not keep settlements: %w", j.syncErr)})
	case j.bytes() > j.opts.MaxBytes:
		j.blocked.Store(&blockage{fmt.Errorf("%d settlements wait for the database, the most the journal may hold", j.records())})
	case j.spare == nil && room < j.opts.SegmentBytes/2:
		j.blocked.Store(&blockage{fmt.Errorf("the journal cannot grow: %w", j.spareErr)})
	default:
		j.blocked.Store(nil)
	}
}

// Backlog is how much waits for the database, and how much may.
type Backlog struct {
	Records int64
	Bytes   int64
	Most    int64 // bytes; beyond it, Ready returns an error
}

// Backlog returns how much waits for the database.
func (j *Journal) Backlog() Backlog {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Backlog{Records: j.records() + int64(len(j.unwritten)), Bytes: j.bytes(), Most: j.opts.MaxBytes}
}

// records returns how many settlements wait for the database, without the unwritten. The caller holds mu.
func (j *Journal) records() (n int64) {
	for _, s := range j.segments {
		n += s.waiting
	}
	return n
}

// bytes returns how many bytes wait for the database. The caller holds mu.
func (j *Journal) bytes() (n int64) {
	for _, s := range j.segments {
		n += s.end - s.read
	}
	return n
}

// Run syncs what was written, at most a second later, keeps a spare segment ready, writes again what the
// disk refused or could not sync, and removes segments that are no longer needed. It returns when ctx ends
// and calls report with every error.
func (j *Journal) Run(ctx context.Context, report func(error)) {
	for range pace.Woken(ctx, syncEvery, j.wake) {
		// The spare comes first: calls are refused without one, and a sync may take seconds on a busy disk.
		if err := errors.Join(j.prepare(), j.sync(), j.retry(), j.sweep()); err != nil {
			report(err)
		}
	}
}

// prepare makes the spare segment if there is none. Only OpenJournal and then Run call it, so two
// spares are never made at once. Making one takes a while, so mu is not held. A number is not used
// again after a failure: a leftover file would be in the way.
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
	s, err := createSegment(filepath.Join(j.dir, segmentName(number)), number, j.opts.SegmentBytes)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spare, j.spareErr = s, err
	j.judge()
	return err
}

// retry writes the settlements that the disk refused, oldest first, until it refuses one again.
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

// sweep removes the segments that are no longer needed: the database has all of their settlements,
// and none of these counts against the rate limits of the last minute any more. It removes from the
// front and never removes the active segment.
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
	if n == 0 {
		return nil
	}
	// The mark on disk must know of them first: after a power cut, an older one would say that they
	// are missing.
	errs := []error{j.writeMark(true)}
	for _, s := range old {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}

// Close writes and syncs what it can, and closes the journal. Run must have returned.
func (j *Journal) Close() error {
	return errors.Join(j.retry(), j.sync(), j.closeFiles())
}

func (j *Journal) closeFiles() error {
	j.files.Lock()
	defer j.files.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, s := range j.segments {
		errs = append(errs, s.file.Close())
	}
	if j.spare != nil { // empty, and its space is better free while no process runs
		errs = append(errs, j.spare.remove())
	}
	j.segments, j.spare = nil, nil
	return errors.Join(errs...)
}
