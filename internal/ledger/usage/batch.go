package usage

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"
)

// Mark is the position in the journal at which a batch ends. It is only valid for the journal that
// returned it.
type Mark struct {
	segment uint64 // number of the segment
	offset  int64  // after the last record of the batch
	records int64  // how many of the batch are in that segment
	seq     uint64 // of the last record; 0 if all are of format 1, which has no numbers
}

// Batch returns the oldest settlements that are not in the database, at most most of them, and the
// mark to pass to Commit when the database has them. It reuses the memory of batch, whose old
// contents are lost. Until Commit, Batch returns the same settlements again.
func (j *Journal) Batch(batch []Settlement, most int) ([]Settlement, Mark, error) {
	var m Mark
	err := j.read(func() { batch, m = batch[:0], Mark{} }, func(p *segment) error {
		if len(batch) == most {
			return nil
		}
		n := int64(0)
		return p.each(p.read, p.end, func(r Settlement, seq uint64, end int64) bool {
			batch = append(batch, r)
			n++
			m = Mark{segment: p.number, offset: end, records: n, seq: max(m.seq, seq)}
			return len(batch) < most
		})
	})
	if err != nil {
		return nil, Mark{}, err
	}
	return batch, m, nil
}

// read calls begin, and then work with a copy of each segment, oldest first. If one of them is damaged, it is mended, and
// all of that is done again.
func (j *Journal) read(begin func(), work func(p *segment) error) error {
	j.files.Lock()
	defer j.files.Unlock()
	for {
		begin()
		var err error
		for _, p := range j.parts() {
			if err = work(&p); err != nil {
				break
			}
		}
		bad, damaged := errors.AsType[*damagedError](err)
		if !damaged {
			return err
		}
		if err := j.mendNow(bad); err != nil {
			return err
		}
	}
}

// parts returns a copy of the segments as they are now. The caller holds files, so no segment is
// removed while it reads them. Append, which needs only mu, continues: it writes after the ends that
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
	j.mu.Lock()
	j.committed = max(j.committed, m.seq)
	j.advance(m)
	j.judge()
	j.mu.Unlock()
	return j.writeMark(false)
}

// advance moves the read position of every segment up to the mark. The caller holds mu.
func (j *Journal) advance(m Mark) {
	for _, s := range j.segments {
		switch {
		case s.number < m.segment:
			s.read, s.waiting = s.end, 0
		case s.number == m.segment:
			s.read, s.waiting = m.offset, s.waiting-m.records
		}
	}
}

// markFile holds the numbers of the last settlement that the database has and of the last one that was
// written, so that a restart does not offer the database again what it has, and notices if the end of
// the journal is missing. Usually the file is not synced and may be out of date. That costs time and
// nothing else, because the database ignores settlements whose id it knows.
//
// Segments of format 1 have no numbers. All of them are offered again.
const (
	markFile    = "mark"
	oldMarkFile = "committed" // of format 1; not used
)

// mark is the content of markFile.
type mark struct {
	committed, written uint64
	known              bool
}

// writeMark replaces the file by renaming a new one, so that a reader never sees half a mark. The
// caller holds files.
func (j *Journal) writeMark(sync bool) error {
	j.mu.Lock()
	m := mark{committed: j.committed, written: max(j.synced, j.committed)}
	j.mu.Unlock()
	var toDisk func(*os.File) error
	if sync {
		toDisk = j.opts.Sync
	}
	if err := replaceFile(filepath.Join(j.dir, markFile), m.encode(), toDisk); err != nil {
		return fmt.Errorf("write the journal's mark: %w", err)
	}
	j.mu.Lock()
	j.noted = max(j.noted, m.written)
	j.mu.Unlock()
	return nil
}

// encode returns the text of the file: the numbers, and their checksum.
func (m mark) encode() []byte {
	b := fmt.Appendf(nil, "2 %d %d", m.committed, m.written)
	return fmt.Appendf(b, " %08x\n", crc32.Checksum(b, castagnoli))
}

// readMark reads the mark of a journal. A mark that is damaged is no mark: everything is offered again.
// A wrong one could skip settlements.
func readMark(dir string) (m mark, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, markFile))
	if errors.Is(err, os.ErrNotExist) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, fmt.Errorf("read the journal's mark: %w", err)
	}
	if _, err := fmt.Sscanf(string(raw), "2 %d %d ", &m.committed, &m.written); err != nil || !bytes.Equal(m.encode(), raw) {
		return mark{}, nil
	}
	m.known = true
	return m, nil
}

// replaceFile writes a file under another name and renames it.
func replaceFile(path string, data []byte, toDisk func(*os.File) error) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && toDisk != nil {
		err = toDisk(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new")) // a sync of the same file would not tell
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	if toDisk != nil {
		syncFolder(filepath.Dir(path))
	}
	return nil
}

// Since returns the settlements in the journal whose calls ended at or after a time, oldest first.
// Some of them may be in the database already.
func (j *Journal) Since(at time.Time) ([]Settlement, error) {
	var out []Settlement
	err := j.read(func() { out = nil }, func(p *segment) error {
		return p.each(0, p.end, func(r Settlement, _ uint64, _ int64) bool {
			if !r.At.Add(r.Latency).Before(at) {
				out = append(out, r)
			}
			return true
		})
	})
	return out, err
}
