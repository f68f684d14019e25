package responses

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A file of the journal is a row of frames:
//
//	 0  magic
//	 4  checksum of everything after it in the frame
//	 8  length of what follows the head
//	12  number of the response in its journal
//	20  when it expires, in Unix milliseconds
//	28  lengths of the id, the account's id and the id before it, a byte each
//	31  these, and what is sealed
//
// Numbers are little-endian. The checksum is CRC-32C. Every frame can be checked alone, so reading continues after one that
// is damaged.
const (
	frameMagic = 0x51a7e5ed
	frameHead  = 20
	frameBody  = 11 // of the body, before the texts
	maxFrame   = frameHead + frameBody + 3*255 + maxJournaled
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends the frame of a response. Its ids have less than 256 bytes: they are hashes and ids of our own.
func appendFrame(b []byte, r *Record, number uint64) []byte {
	start := len(b)
	b = append(b, make([]byte, frameHead)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.ExpiresAt.UnixMilli()))
	b = append(b, byte(len(r.ID)), byte(len(r.AccountID)), byte(len(r.Previous)))
	b = append(append(append(append(b, r.ID...), r.AccountID...), r.Previous...), r.Sealed...)
	f := b[start:]
	binary.LittleEndian.PutUint32(f, frameMagic)
	binary.LittleEndian.PutUint32(f[8:], uint32(len(f)-frameHead))
	binary.LittleEndian.PutUint64(f[12:], number)
	binary.LittleEndian.PutUint32(f[4:], crc32.Checksum(f[8:], castagnoli))
	return b
}

// readFrame reads the frame at the start of b and returns its size. It returns 0 if there is none, or only a part. The
// record shares the memory of b.
func readFrame(b []byte) (r *Record, number uint64, size int) {
	if len(b) < frameHead+frameBody || binary.LittleEndian.Uint32(b) != frameMagic {
		return nil, 0, 0
	}
	n := binary.LittleEndian.Uint32(b[8:])
	if n < frameBody || n > maxFrame-frameHead || int(n) > len(b)-frameHead {
		return nil, 0, 0
	}
	size = frameHead + int(n)
	if crc32.Checksum(b[8:size], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0, 0
	}
	body := b[frameHead:size:size]
	rest := body[frameBody:]
	next := func(n byte) []byte {
		n = byte(min(int(n), len(rest)))
		text := rest[:n:n]
		rest = rest[n:]
		return text
	}
	r = &Record{ExpiresAt: time.UnixMilli(int64(binary.LittleEndian.Uint64(body))).UTC()}
	r.ID, r.AccountID, r.Previous = next(body[8]), string(next(body[9])), next(body[10])
	r.Sealed = rest
	return r, binary.LittleEndian.Uint64(b[12:]), size
}

// file is one file of a journal. The journal's mu guards it.
type file struct {
	path    string
	journal string // the name of the journal that it is a part of
	file    *os.File
	end     int64  // after the last frame
	last    uint64 // the number of the last response that may be in it
	dirty   bool   // written to since the last sync
}

const fileSuffix = ".responses"

// filesIn returns the files that earlier processes left in a folder.
func filesIn(dir string) (all []*file, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // in the order of their names, which is that of the numbers within a journal
		if name, ok := strings.CutSuffix(e.Name(), fileSuffix); ok {
			journal, _, _ := strings.Cut(name, "-")
			all = append(all, &file{path: filepath.Join(dir, e.Name()), journal: journal})
		}
	}
	return all, nil
}

// createFile makes a file. With sync, its name survives a power cut.
func createFile(dir, journal string, number int, sync bool) (*file, error) {
	path := filepath.Join(dir, fmt.Sprintf("%s-%012d%s", journal, number, fileSuffix))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if sync {
		if d, err := os.Open(dir); err == nil {
			_ = d.Sync() // some systems cannot sync a folder; there the sync of the file must be enough
			d.Close()
		}
	}
	return &file{path: path, journal: journal, file: f}, nil
}

// append writes a frame. After an error the file must not be written to any more.
func (f *file) append(frame []byte, sync bool) error {
	_, err := f.file.WriteAt(frame, f.end)
	if err == nil && sync {
		err = f.file.Sync()
	}
	if err != nil {
		_ = f.file.Truncate(f.end) // nobody is told that the response is here
		return err
	}
	f.end += int64(len(frame))
	f.dirty = !sync
	return nil
}

// read returns the responses in the file, and how many bytes cannot be read.
func (f *file) read() (list []*held, bad int, err error) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, 0, err
	}
	for len(data) > 0 {
		r, number, size := readFrame(data)
		if size == 0 {
			data, bad = data[1:], bad+1
			continue
		}
		list = append(list, &held{r, Mark{f.journal, number}})
		data = data[size:]
	}
	return list, bad, nil
}

// remove deletes the file.
func (f *file) remove() error {
	err := os.Remove(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(f.close(), err)
}

// close closes the file, if this process writes it.
func (f *file) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
