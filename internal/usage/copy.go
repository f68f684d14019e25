package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Copied is what a copy of a journal holds.
type Copied struct {
	Files   int    `json:"files"`
	Records int64  `json:"records"`
	Last    uint64 `json:"last_number"` // of the last settlement that was written; 0 if there was none
}

// Copy writes what the journal holds now into a new folder, where Replay can read it. Settlements that are
// appended meanwhile may be in the copy or not.
func (j *Journal) Copy(dir string) (out Copied, err error) {
	j.files.Lock()
	defer j.files.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return out, fmt.Errorf("copy the journal: %w", err)
	}
	err = j.reading(func() error {
		out = Copied{}
		for _, p := range j.parts() {
			if p.end == 0 {
				continue
			}
			err := p.each(0, p.end, func(_ Settlement, seq uint64, _ int64) bool {
				out.Records++
				out.Last = max(out.Last, seq)
				return true
			})
			if err != nil {
				return err
			}
			if err := copyPart(&p, filepath.Join(dir, filepath.Base(p.path))); err != nil {
				return fmt.Errorf("copy the journal: %w", err)
			}
			out.Files++
		}
		return nil
	})
	return out, err
}

// copyPart copies the frames of a segment, without the zeros behind them.
func copyPart(s *segment, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(s.file, 0, s.end))
	return errors.Join(err, f.Sync(), f.Close())
}

// CopyJournal moves everything from the journal into the database, and then writes what the journal holds
// into a new folder. A copy of the database that is made after that, and the copy of the journal, have
// every settlement that was recorded before.
func (b *Books) CopyJournal(ctx context.Context, dir string) (Copied, error) {
	if err := b.Flush(ctx); err != nil {
		return Copied{}, err
	}
	return b.journal.Copy(dir)
}

// Rewind makes the next OpenJournal offer everything that the journal in a folder holds, because the
// database behind it was replaced. A folder without a journal is left alone.
func Rewind(dir string) error {
	err := os.Remove(filepath.Join(dir, markFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("rewind the journal: %w", err)
	}
	return nil
}

// Used reports whether settlements were ever written to the journal in a folder, as far as can be told
// without opening it. It changes nothing.
func Used(dir string) (bool, error) {
	if m, err := readMark(dir); err != nil || m.written > 0 || m.committed > 0 {
		return err == nil, err
	}
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the journal's folder: %w", err)
	}
	for _, f := range files {
		number, old, ok := segmentNumber(f.Name())
		if !ok {
			continue
		}
		s, err := openSegment(filepath.Join(dir, f.Name()), number, old, os.O_RDONLY)
		if err != nil {
			return false, fmt.Errorf("read the journal: %w", err)
		}
		data, err := s.content(nil)
		closeAll([]*segment{s})
		if err != nil {
			return false, fmt.Errorf("read the journal: %w", err)
		}
		if scan(data, old, link{}, floorless, nil).records > 0 {
			return true, nil
		}
	}
	return false, nil
}
