package usage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A segment is one file of the journal: records one after the other, each with its length and
// checksum before it, then zeros. Its room is taken from the disk when it is made, so that writing into
// it cannot fail for want of space.
type segment struct {
	number uint64
	path   string
	file   *os.File
	size   int64     // what there is room for
	end    int64     // behind the last record
	read   int64     // behind the last record that is in the database
	dirty  bool      // something was written since it was last synced
	begun  time.Time // when it was first written to, as far as this process knows
	ended  time.Time // when another one took its place
}

const frameHead = 8 // length and checksum, four bytes each

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// createSegment makes an empty segment with all its room.
func createSegment(path string, number uint64, size int64) (*segment, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := allocate(f, size); err != nil {
		f.Close()
		return nil, errors.Join(err, os.Remove(path))
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return nil, errors.Join(err, os.Remove(path))
	}
	syncFolder(filepath.Dir(path))
	return &segment{number: number, path: path, file: f, size: size, begun: time.Now()}, nil
}

// syncFolder makes a new file's name survive a power cut. Not every system can; there the file's own
// sync has to do.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		_ = d.Sync()
		d.Close()
	}
}

// openSegment opens a segment that an earlier process left, and finds its end: a record that is cut
// or damaged was never answered for, and what follows it neither. The flag is that of os.OpenFile.
func openSegment(path string, number uint64, flag int) (*segment, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	now := time.Now() // its true age is unknown
	s := &segment{number: number, path: path, file: f, size: info.Size(), begun: now, ended: now}
	err = s.frames(0, s.size, func(_ []byte, end int64) bool {
		s.end = end
		return true
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// allocateByWriting takes room where the file system cannot do it by itself.
func allocateByWriting(f *os.File, size int64) error {
	zeros := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// fits reports whether there is room for a record.
func (s *segment) fits(raw []byte) bool { return s.end+frameHead+int64(len(raw)) <= s.size }

// append writes a record; frame is room for it with its head.
func (s *segment) append(frame []byte) error {
	raw := frame[frameHead:]
	binary.LittleEndian.PutUint32(frame, uint32(len(raw)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(raw, castagnoli))
	if _, err := s.file.WriteAt(frame, s.end); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	s.end += int64(len(frame))
	s.dirty = true
	return nil
}

// frames hands out the records between two offsets as they are, as far as they are whole. It reads many
// at a time.
func (s *segment) frames(from, until int64, yield func(raw []byte, end int64) bool) error {
	buf := make([]byte, 0, readAtOnce)
	start := from // of buf in the file
	for at := from; at < until; {
		have := buf[at-start:]
		n, whole := frameLen(have)
		if !whole {
			want := max(readAtOnce, n)
			buf = make([]byte, min(want, until-at))
			got, err := s.file.ReadAt(buf, at)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			buf, start = buf[:got], at
			if n, whole = frameLen(buf); !whole {
				return nil // cut
			}
			have = buf
		}
		raw := have[frameHead:n]
		if len(raw) == 0 || crc32.Checksum(raw, castagnoli) != binary.LittleEndian.Uint32(have[4:]) {
			return nil // zeros, or damaged
		}
		at += n
		if !yield(raw, at) {
			return nil
		}
	}
	return nil
}

const readAtOnce = 256 << 10

// each reads the settlements between two offsets.
func (s *segment) each(from, until int64, yield func(r Settlement, end int64) bool) error {
	var bad error
	known := texts{}
	err := s.frames(from, until, func(raw []byte, end int64) bool {
		var r Settlement
		if r, bad = parseRecord(raw, known); bad != nil {
			return false
		}
		return yield(r, end)
	})
	if err = errors.Join(err, bad); err != nil {
		return fmt.Errorf("read the journal: %s: %w", s.path, err)
	}
	return nil
}

// endsAt reports whether a record ends at an offset.
func (s *segment) endsAt(offset int64) bool {
	found := false
	err := s.frames(0, s.size, func(_ []byte, end int64) bool {
		found = end == offset
		return end < offset
	})
	return err == nil && found
}

// frameLen is how long the frame that b begins with is, head included, and whether all of it is there.
func frameLen(b []byte) (int64, bool) {
	if len(b) < frameHead {
		return frameHead, false
	}
	n := frameHead + int64(binary.LittleEndian.Uint32(b))
	return n, n <= int64(len(b))
}

// remove deletes the segment.
func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.path))
}
