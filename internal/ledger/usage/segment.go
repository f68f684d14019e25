package usage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// segment is one file of the journal. See frame.go for what is in it. The disk space of the whole file
// is reserved when it is made, so a write into it cannot fail because the disk is full.
//
// A segment has no lock of its own. The journal's mu guards its fields; number, path and old never
// change.
type segment struct {
	number  uint64 // orders the segments; part of the file's name
	path    string
	old     bool // of format 1
	file    *os.File
	size    int64     // of the file
	end     int64     // after the last record
	read    int64     // after the last record that is in the database; at most end
	waiting int64     // records between read and end
	spoiled int64     // up to where a write that failed may have left something; 0 if none did
	last    link      // the last frame that is known to have been in it, readable or not
	torn    bool      // its end was damaged when it was opened, and nobody knows how much is missing
	sealed  bool      // it is not written to any more, although it may have room
	dirty   bool      // written to since the last sync
	failed  bool      // its last sync failed: what was written before it may be lost; see sync.go
	tail    []byte    // the end of it, which no sync has covered yet
	begun   time.Time // when it became active, or when this process opened it
	ended   time.Time // when the next segment became active, or when this process opened it
}

// The names of segments are a number and one of these. Programs that know only the first leave the
// other files alone.
const (
	oldSuffix     = ".journal"
	segmentSuffix = ".journal2"
)

// segmentName returns the name of the file of a segment.
func segmentName(number uint64) string { return fmt.Sprintf("%012d%s", number, segmentSuffix) }

// segmentNumber reads the name of a segment. It returns false if it is that of another file.
func segmentNumber(name string) (number uint64, old, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		digits, old = strings.CutSuffix(name, oldSuffix)
	}
	number, err := strconv.ParseUint(digits, 10, 63)
	return number, old, (ok || old) && err == nil
}

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

// segmentsIn opens the segments that an earlier process left in a folder, oldest first. What is in them is found out by
// whoever calls content and scan. The flag is that of os.OpenFile.
func segmentsIn(dir string, flag int) (all []*segment, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		number, old, ok := segmentNumber(f.Name())
		if !ok {
			continue // not a segment, such as the file with the mark
		}
		s, err := openSegment(filepath.Join(dir, f.Name()), number, old, flag)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// openSegment opens a segment that an earlier process left.
func openSegment(path string, number uint64, old bool, flag int) (*segment, error) {
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
	return &segment{number: number, path: path, old: old, sealed: old, file: f, size: info.Size(), begun: now, ended: now}, nil
}

// closeAll closes segments that were only read.
func closeAll(all []*segment) {
	for _, s := range all {
		_ = s.file.Close()
	}
}

// pageSize is the least that a disk loses at once.
const pageSize = 4 << 10

// content reads the whole file into room, which it makes larger if need be. Parts that the disk cannot
// read are zeros: what follows them may still be there.
func (s *segment) content(room []byte) ([]byte, error) {
	if int64(cap(room)) < s.size {
		room = make([]byte, s.size)
	}
	room = room[:s.size]
	n, err := s.file.ReadAt(room, 0)
	if err == nil || errors.Is(err, io.EOF) {
		return room[:n], nil
	}
	if errors.Is(err, os.ErrClosed) {
		return nil, err
	}
	// A byte that is not zero keeps scan from taking what could not be read for the end.
	for at := int64(0); at < s.size; at += pageSize {
		page := room[at:min(at+pageSize, s.size)]
		if _, err := s.file.ReadAt(page, at); err != nil && !errors.Is(err, io.EOF) {
			clear(page)
			page[len(page)-1] = 0xff
		}
	}
	return room, nil
}

// follows returns the place that the first frame of the segment follows. It is not known if that frame
// cannot be read.
func (s *segment) follows() link {
	head := make([]byte, min(s.size, frameHead+maxRecord))
	n, _ := s.file.ReadAt(head, 0)
	f, ok := readFrame(head[:n], s.old)
	if !ok || s.old {
		return link{}
	}
	return f.follows()
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

// fits reports whether the segment has room for this many bytes.
func (s *segment) fits(n int) bool { return !s.sealed && s.end+int64(n) <= s.size }

// append writes a complete frame. After an error the segment's end is unchanged, so the next frame
// overwrites what was written.
func (s *segment) append(frame []byte) error {
	after := s.end + int64(len(frame))
	if s.spoiled > after { // what the write that failed left after this frame would look like damage
		frame = append(frame, make([]byte, s.spoiled-after)...)
	}
	if n, err := s.file.WriteAt(frame, s.end); err != nil {
		s.spoiled = max(s.spoiled, s.end+int64(n))
		return fmt.Errorf("write the journal: %w", err)
	}
	s.tail = append(s.tail, frame[:after-s.end]...)
	s.end, s.spoiled, s.dirty = after, 0, true
	return nil
}

// damagedError says that a segment cannot be read at an offset.
type damagedError struct {
	path string
	at   int64
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("read the journal: %s is damaged at byte %d", e.path, e.at)
}

// frames calls yield with each settlement between two offsets, still encoded, and with the offset after
// it, until yield returns false. Both offsets are at the ends of frames. A frame that cannot be read, or
// is out of its place, is a *damagedError. yield must not keep the frame. The file is read readAtOnce
// bytes at a time.
func (s *segment) frames(from, until int64, yield func(f *frame, end int64) bool) error {
	var buf []byte
	start := from // of buf in the file
	var last link
	for at := from; at < until; {
		have := buf[at-start:]
		if n := frameSize(have, s.old); n == 0 || n > int64(len(have)) {
			buf = make([]byte, min(max(readAtOnce, n), until-at))
			got, err := s.file.ReadAt(buf, at)
			switch {
			case err == nil, errors.Is(err, io.EOF):
			case errors.Is(err, os.ErrClosed):
				return fmt.Errorf("read the journal: %w", err)
			default: // the disk has lost this part; see content
				return &damagedError{s.path, at}
			}
			buf, start = buf[:got], at
			have = buf
		}
		f, ok := readFrame(have, s.old)
		if !ok || !s.old && last.known && last != f.follows() {
			return &damagedError{s.path, at}
		}
		at += f.size
		if f.kind == kindResume {
			last = f.resumed()
			continue
		}
		last = link{seq: f.seq, sum: f.sum, known: true}
		if !yield(&f, at) {
			return nil
		}
	}
	return nil
}

const readAtOnce = 256 << 10 // more than a thousand settlements

// each calls yield with each settlement between two offsets, its number and the offset after it, until
// yield returns false. A record that has the right checksum and cannot be decoded is an error: probably
// a newer version wrote it, and skipping it would lose it.
func (s *segment) each(from, until int64, yield func(r Settlement, seq uint64, end int64) bool) error {
	var bad error
	known := texts{}
	err := s.frames(from, until, func(f *frame, end int64) bool {
		var r Settlement
		if r, bad = parseRecord(f.raw, known); bad != nil {
			return false
		}
		return yield(r, f.seq, end)
	})
	if bad != nil {
		return fmt.Errorf("read the journal: %s: %w", s.path, bad)
	}
	return err
}

// remove closes the segment and deletes its file.
func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.path))
}
