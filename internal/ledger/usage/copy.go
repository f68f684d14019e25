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

// Part is a file of the journal, as far as it was written when Parts was called.
type Part struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	Records int64  `json:"records"`
	Last    uint64 `json:"last_number"` // of the last settlement in it
}

// Parts returns the files of the journal that hold something, oldest first. Files are only appended to, so the first
// Bytes of each are the same whenever they are read.
func (j *Journal) Parts() (list []Part, err error) {
	err = j.read(func() { list = nil }, func(p *segment) error {
		if p.end == 0 {
			return nil
		}
		part := Part{Name: filepath.Base(p.path), Bytes: p.end}
		err := p.each(0, p.end, func(_ Settlement, seq uint64, _ int64) bool {
			part.Records++
			part.Last = max(part.Last, seq)
			return true
		})
		list = append(list, part)
		return err
	})
	return list, err
}

// ReadPart reads a file of the journal into p, from an offset, and returns how much there was. If the file is gone,
// the error wraps os.ErrNotExist: its settlements have been in the database for long.
func (j *Journal) ReadPart(name string, offset int64, p []byte) (int, error) {
	j.files.Lock()
	defer j.files.Unlock()
	for _, s := range j.parts() {
		if filepath.Base(s.path) != name {
			continue
		}
		n, err := io.NewSectionReader(s.file, 0, s.end).ReadAt(p, offset)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	return 0, fmt.Errorf("the journal has no file %q: %w", name, os.ErrNotExist)
}

// JournalParts moves everything from the journal into the database, and then returns the files of the journal. A copy
// of the database that is made after that, and these files, have every settlement that was recorded before.
func (b *Books) JournalParts(ctx context.Context) ([]Part, error) {
	if err := b.Flush(ctx); err != nil {
		return nil, err
	}
	return b.journal.Parts()
}

// ReadJournal reads a file of the journal; see Journal.ReadPart.
func (b *Books) ReadJournal(name string, offset int64, p []byte) (int, error) {
	return b.journal.ReadPart(name, offset, p)
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
	files, err := segmentsIn(dir, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	defer closeAll(files)
	for i := 0; i < len(files) && err == nil; i++ {
		var data []byte
		if data, err = files[i].content(nil); scan(data, files[i].old, link{}, floorless, nil).records > 0 {
			return true, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("read the journal: %w", err)
	}
	return false, nil
}
