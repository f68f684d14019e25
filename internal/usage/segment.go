package usage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// A segment is one file of the journal: records one after the other, each with its length and
// checksum before it, then zeros. Its room is taken from the disk when it is made, so that writing into
// it cannot fail for want of space.
type segment struct {
	number uint64
	path   string
	file   *os.File
	size   int64 // what there is room for
	end    int64 // behind the last record
	read   int64 // behind the last record that is in the database
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
	return &segment{number: number, path: path, file: f, size: size}, nil
}

// openSegment opens a segment that an earlier process left, and finds its end: a record that is cut
// or damaged was never answered for, and what follows it neither.
func openSegment(path string, number uint64) (*segment, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &segment{number: number, path: path, file: f, size: info.Size()}
	for {
		raw, err := s.at(s.end)
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		s.end += frameHead + int64(len(raw))
	}
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
	return nil
}

// at reads the record at an offset; io.EOF where there is none, or none that is whole.
func (s *segment) at(offset int64) ([]byte, error) {
	var head [frameHead]byte
	if offset+frameHead > s.size {
		return nil, io.EOF
	}
	if _, err := s.file.ReadAt(head[:], offset); err != nil {
		return nil, eof(err)
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n == 0 || offset+frameHead+n > s.size {
		return nil, io.EOF
	}
	raw := make([]byte, n)
	if _, err := s.file.ReadAt(raw, offset+frameHead); err != nil {
		return nil, eof(err)
	}
	if crc32.Checksum(raw, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, io.EOF
	}
	return raw, nil
}

// eof makes the end of a file that was cut short the end of its records.
func eof(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// remove deletes the segment.
func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.path))
}
