package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Mark is how far a batch reaches.
type Mark struct {
	segment uint64
	offset  int64
	records int64
}

// Batch returns up to most of the oldest settlements that are not in the database, in the room that
// batch has, and the mark to give to Commit once they are.
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

// parts are the segments as they are now. Whoever holds files can read them while more is appended.
func (j *Journal) parts() []segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	parts := make([]segment, len(j.segments))
	for i, s := range j.segments {
		parts[i] = *s
	}
	return parts
}

// Commit notes that the database has everything up to the mark.
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

// readMark takes over the mark of an earlier process. One that does not stand behind a record of a
// segment is none, and goes: it must not fit by chance later.
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

// Since returns the settlements made at or after a time that the journal still has, whether the
// database has them or not.
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
