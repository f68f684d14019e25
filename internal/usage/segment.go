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

// segment is one file of the journal: frames, then zeros. A frame is a record after its length and
// checksum. The disk space of the whole file is reserved when it is made, so a write into it cannot
// fail because the disk is full.
//
// A segment has no lock of its own. The journal's mu guards its fields; number, path, file and size
// never change.
type segment struct {
	number uint64 // orders the segments; part of the file's name
	path   string
	file   *os.File
	size   int64     // of the file
	end    int64     // after the last record
	read   int64     // after the last record that is in the database; at most end
	dirty  bool      // written to since the last sync
	begun  time.Time // when it became active, or when this process opened it
	ended  time.Time // when the next segment became active, or when this process opened it
}

// frameHead is the size of a frame's head: length and checksum, little-endian, four bytes each.
const frameHead = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// createSegment makes an empty segment and reserves its disk space. It leaves no file behind if it
// fails.
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

// syncFolder makes the name of a new file survive a power cut. Some systems cannot sync a folder.
// There the sync of the file itself must be enough, so errors are ignored.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		_ = d.Sync()
		d.Close()
	}
}

// openSegment opens a segment that an earlier process left, and finds its end: the first frame that
// is cut or damaged. Such a frame belongs to an Append that never returned, or to the last second
// before a power cut. What follows it is given up. The flag is that of
// os.OpenFile.
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

// allocateByWriting reserves disk space by writing zeros, for systems and file systems that have no
// call for it.
func allocateByWriting(f *os.File, size int64) error {
	zeros := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// fits reports whether the segment has room for the frame of a record.
func (s *segment) fits(raw []byte) bool { return s.end+frameHead+int64(len(raw)) <= s.size }

// append writes a frame: its record is complete, and append fills in its head. After an error the
// segment's end is unchanged, so the next frame overwrites what was written.
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

// frames calls yield with each record between two offsets, still encoded, and with the offset after
// it, until yield returns false. It stops without an error at the first frame that is cut, damaged or
// empty. yield must not keep raw. The file is read readAtOnce bytes at a time.
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
				return nil // the frame is cut
			}
			have = buf
		}
		raw := have[frameHead:n]
		if len(raw) == 0 || crc32.Checksum(raw, castagnoli) != binary.LittleEndian.Uint32(have[4:]) {
			return nil // the zeros after the last frame, or a damaged one
		}
		at += n
		if !yield(raw, at) {
			return nil
		}
	}
	return nil
}

const readAtOnce = 256 << 10 // more than a thousand settlements

// each calls yield with each settlement between two offsets and with the offset after it, until
// yield returns false. A record that has the right checksum and cannot be decoded is an error:
// probably a newer version wrote it, and skipping it would lose it.
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

// endsAt reports whether a record ends at offset.
func (s *segment) endsAt(offset int64) bool {
	found := false
	err := s.frames(0, s.size, func(_ []byte, end int64) bool {
		found = end == offset
		return end < offset
	})
	return err == nil && found
}

// frameLen returns the length of the frame at the start of b, with its head, and reports whether b
// has all of it. If b has not even a head, it returns the length of the head.
func frameLen(b []byte) (int64, bool) {
	if len(b) < frameHead {
		return frameHead, false
	}
	n := frameHead + int64(binary.LittleEndian.Uint32(b))
	return n, n <= int64(len(b))
}

// remove closes the segment and deletes its file.
func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.path))
}
