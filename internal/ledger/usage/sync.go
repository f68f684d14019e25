package usage

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// When a sync fails, nobody knows what is on the disk: Linux takes the pages for written and may drop
// them, so the next sync succeeds although they are lost. The sync is therefore not repeated. The segment
// ends there, and none of its settlements counts as synced until all of it has been written to a new
// file and synced there. For that, each segment keeps in memory what no sync has covered.

// sync writes the dirty segments through to the disk. It does not hold mu meanwhile, so Append goes
// on. A segment is marked clean before its sync: what Append adds meanwhile marks it dirty again. Then
// the mark notes how far the journal has been written, so that a later start notices if that is missing.
func (j *Journal) sync() error {
	if err := j.rescue(); err != nil {
		return err // each sync that fails ends a segment, so the disk must first keep one again
	}
	type dirt struct {
		*segment
		file *os.File
		end  int64
	}
	j.mu.Lock()
	var dirty []dirt
	for _, s := range j.segments {
		if s.dirty {
			s.dirty = false
			dirty = append(dirty, dirt{s, s.file, s.end})
		}
	}
	written, noted := j.last.seq, j.noted
	j.mu.Unlock()
	var errs []error
	for _, d := range dirty {
		err := j.opts.Sync(d.file)
		if errors.Is(err, os.ErrClosed) {
			continue // the segment was removed or replaced
		}
		j.mu.Lock()
		switch {
		case d.segment.file != d.file: // replaced by one that is synced
		case err != nil:
			errs = append(errs, fmt.Errorf("sync the journal: %w", err))
			j.fail(d.segment)
		default:
			d.segment.kept(d.end)
		}
		j.mu.Unlock()
	}
	if len(errs) > 0 {
		errs = append(errs, j.rescue())
		return errors.Join(errs...)
	}
	if written == noted {
		return nil
	}
	j.mu.Lock()
	j.synced = max(j.synced, written)
	j.mu.Unlock()
	j.files.Lock()
	defer j.files.Unlock()
	return j.writeMark(false)
}

// syncActive syncs the segment that was just written to. Calls that end at the same time wait here for
// each other's sync. The caller holds mu.
func (j *Journal) syncActive() error {
	active := j.active()
	if err := j.opts.Sync(active.file); err != nil {
		j.fail(active)
		j.rouse()
		return fmt.Errorf("sync the journal: %w", err)
	}
	active.dirty = false
	active.kept(active.end)
	if !slices.ContainsFunc(j.segments, func(s *segment) bool { return s.dirty || s.failed }) {
		j.synced = j.last.seq
	}
	return nil
}

// kept notes that a sync has covered the segment up to an offset. The caller holds the journal's mu.
func (s *segment) kept(until int64) {
	if n := until - (s.end - int64(len(s.tail))); n > 0 {
		s.tail = append(s.tail[:0], s.tail[n:]...)
	}
	if len(s.tail) == 0 && cap(s.tail) > spareTail { // of a busy second
		s.tail = nil
	}
}

// spareTail is how much memory a segment keeps for the next second: that of some hundred calls.
const spareTail = 64 << 10

// fail ends a segment whose sync failed. The caller holds mu.
func (j *Journal) fail(s *segment) {
	s.failed, s.sealed = true, true
	if s == j.active() && j.spare != nil {
		j.turn()
	}
}

// rescue writes the segments whose sync failed again. While one cannot be, Ready returns an error.
func (j *Journal) rescue() error {
	j.mu.Lock()
	failed := slices.DeleteFunc(slices.Clone(j.segments), func(s *segment) bool { return !s.failed })
	known := j.syncErr
	j.mu.Unlock()
	if len(failed) == 0 && known == nil {
		return nil
	}
	j.files.Lock()
	defer j.files.Unlock()
	var errs []error
	for _, s := range failed {
		errs = append(errs, j.rewrite(s))
	}
	err := errors.Join(errs...)
	j.mu.Lock()
	j.syncErr = err
	j.judge()
	j.mu.Unlock()
	return err
}

// rewrite replaces a segment whose sync failed by a new file with the same frames: those that an earlier
// sync covered are read, the others are still in memory. Nothing is appended to it any more. The caller
// holds files.
func (j *Journal) rewrite(s *segment) error {
	j.mu.Lock()
	part := *s
	j.mu.Unlock()
	if !part.failed { // a reader was faster
		return nil
	}
	data, err := part.content(nil)
	if err != nil {
		return fmt.Errorf("write a segment of the journal again: %w", err)
	}
	whole := append(data[:min(int64(len(data)), part.end-int64(len(part.tail)))], part.tail...)
	if err := j.replace(s, whole, func() { s.failed = false }); err != nil {
		return fmt.Errorf("write a segment of the journal again: %w", err)
	}
	return nil
}

// replace makes a new file take the place of a segment's. Nothing is appended to it any more. note is called with the lock,
// to note what is in the new one. The caller holds files, or opens the journal.
func (j *Journal) replace(s *segment, whole []byte, note func()) error {
	if err := replaceFile(s.path, whole, j.opts.Sync); err != nil {
		return err
	}
	file, err := os.OpenFile(s.path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	j.mu.Lock()
	was := s.file
	s.file, s.size, s.dirty, s.tail = file, int64(len(whole)), false, nil
	note()
	j.mu.Unlock()
	_ = was.Close() // its content does not count any more
	return nil
}
