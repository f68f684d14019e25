package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Mark is the position in the journal at which a batch ends. It is only valid for the journal that
// returned it.
type Mark struct {
	segment uint64 // number of the segment
	offset  int64  // after the last record of the batch
	records int64  // how many the batch has
}

// Batch returns the oldest settlements that are not in the database, at most most of them, and the
// mark to pass to Commit when the database has them. It reuses the memory of batch, whose old
// contents are lost. Until Commit, Batch returns the same settlements again.
func (j *Journal) Batch(batch []Settlement, most int) ([]Settlement, Mark, error) {
	j.files.Lock()
	defer j.files.Unlock()
	batch = batch[:0]
	var m Mark
	for _, p := range j.parts() {
		err := p.each(p.read, p.end, func(r Settlement, end int64) bool {
			batch = append(batch, r)
			m = Mark{segment: p.number, offset: end, records: int64(len(batch))}
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

// parts returns a copy of the segments as they are now. The caller holds files, so no segment is
// removed while it reads them. Append, which needs only mu, goes on: it writes behind the ends that
// the copies have.
func (j *Journal) parts() []segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	parts := make([]segment, len(j.segments))
	for i, s := range j.segments {
		parts[i] = *s
	}
	return parts
}

// Commit notes that the database has everything up to the mark. If the mark cannot be written, it
// returns an error, but this process does not offer the settlements again; only a restart would.
func (j *Journal) Commit(m Mark) error {
	j.files.Lock()
	defer j.files.Unlock()
	err := j.writeMark(m)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records -= m.records
	j.advance(m)
	j.judge()
	return err
}

// advance moves the read position of every segment up to the mark. The caller holds mu.
func (j *Journal) advance(m Mark) {
	for _, s := range j.segments {
		switch {
		case s.number < m.segment:
			s.read = s.end
		case s.number == m.segment:
			s.read = m.offset
		}
	}
}

// markFile holds the number of the segment and the offset of the last Commit, so that a restart
// does not offer the database again what it has. The file is not synced and may be out of date.
// That costs time and nothing else, because the database ignores settlements whose id it knows.
const markFile = "committed"

// writeMark replaces the file by renaming a new one, so that a reader never sees half a mark.
func (j *Journal) writeMark(m Mark) error {
	path := filepath.Join(j.dir, markFile)
	if err := os.WriteFile(path+".new", fmt.Appendf(nil, "%d %d\n", m.segment, m.offset), 0o600); err != nil {
		return fmt.Errorf("write the journal's mark: %w", err)
	}
	return os.Rename(path+".new", path)
}

// readMark applies the mark that an earlier process wrote. It deletes a mark that is not at the end
// of a record of one of the segments: if it stayed, it could fit a later segment by chance, and
// settlements before it would be skipped.
func (j *Journal) readMark() error {
	path := filepath.Join(j.dir, markFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the journal's mark: %w", err)
	}
	var m Mark
	if _, err := fmt.Sscanf(string(raw), "%d %d\n", &m.segment, &m.offset); err == nil {
		i := slices.IndexFunc(j.segments, func(s *segment) bool { return s.number == m.segment })
		if i >= 0 && j.segments[i].endsAt(m.offset) {
			j.advance(m)
			return nil
		}
	}
	return os.Remove(path)
}

// Since returns the settlements in the journal whose calls ended at or after a time, oldest first.
// Some of them may be in the database already.
func (j *Journal) Since(at time.Time) ([]Settlement, error) {
	j.files.Lock()
	defer j.files.Unlock()
	var out []Settlement
	for _, p := range j.parts() {
		err := p.each(0, p.end, func(r Settlement, _ int64) bool {
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
