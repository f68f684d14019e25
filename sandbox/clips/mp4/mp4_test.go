package mp4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

var (
	movie = Movie{
		Width: 854, Height: 480, FPS: 24, SPS: []byte{0x67, 66, 0xC0, 30, 1}, PPS: []byte{0x68, 2},
		Title: "Möwen über dem Meer", Comment: "a comment",
	}
	samples = []Sample{{[]byte("first picture"), true}, {[]byte("2nd"), false}, {[]byte("third one"), false}, {[]byte("4"), true}}
)

// find returns the content of the box at a path such as "moov/trak", and where in the file it begins.
func find(t *testing.T, file []byte, path string) (content []byte, at int) {
	t.Helper()
	content = file
	for name := range strings.SplitSeq(path, "/") {
		found := false
		for o := 0; o+8 <= len(content); {
			size := int(binary.BigEndian.Uint32(content[o:]))
			if size < 8 || o+size > len(content) {
				t.Fatalf("box %q in %s has %d bytes, of %d there are", content[o+4:o+8], path, size, len(content)-o)
			}
			if string(content[o+4:o+8]) == name {
				content, at, found = content[o+8:o+size], at+o+8, true
				break
			}
			o += size
		}
		if !found {
			t.Fatalf("no box %s (at %s)", path, name)
		}
		if name == "meta" {
			content, at = content[4:], at+4
		}
	}
	return content, at
}

func words(b []byte) (all []uint32) {
	for ; len(b) >= 4; b = b[4:] {
		all = append(all, binary.BigEndian.Uint32(b))
	}
	return all
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Write(&out, movie, samples); err != nil {
		t.Fatal(err)
	}
	file := out.Bytes()
	_, index := find(t, file, "moov")
	pictures, at := find(t, file, "mdat")
	if index > at {
		t.Errorf("moov at %d, mdat at %d, want moov first", index, at)
	}
	if want := "first picture2ndthird one4"; string(pictures) != want {
		t.Errorf("mdat = %q, want %q", pictures, want)
	}
	if at+len(pictures) != len(file) {
		t.Errorf("mdat ends at %d, want %d, the end of the file", at+len(pictures), len(file))
	}
	const table = "moov/trak/mdia/minf/stbl/"
	for _, tt := range []struct {
		path string
		want []uint32
	}{
		{table + "stco", []uint32{0, 1, uint32(at)}},
		{table + "stsz", []uint32{0, 0, 4, 13, 3, 9, 1}},
		{table + "stss", []uint32{0, 2, 1, 4}},
		{table + "stts", []uint32{0, 1, 4, 512}},
		{table + "stsc", []uint32{0, 1, 1, 4, 1}},
	} {
		content, _ := find(t, file, tt.path)
		if got := words(content); !slices.Equal(got, tt.want) {
			t.Errorf("%s = %v, want %v", tt.path, got, tt.want)
		}
	}
	header, _ := find(t, file, "moov/mvhd")
	if got, want := words(header)[3:5], []uint32{1000, 167}; !slices.Equal(got, want) {
		t.Errorf("mvhd says scale and length %v, want %v", got, want)
	}
	track, _ := find(t, file, "moov/trak/tkhd")
	if got, want := words(track[len(track)-8:]), []uint32{854 << 16, 480 << 16}; !slices.Equal(got, want) {
		t.Errorf("tkhd says size %v, want %v", got, want)
	}
	for path, want := range map[string]string{"\xa9nam": movie.Title, "\xa9cmt": movie.Comment} {
		tag, _ := find(t, file, "moov/udta/meta/ilst/"+path+"/data")
		if got := string(tag[8:]); got != want {
			t.Errorf("tag %q = %q, want %q", path, got, want)
		}
	}
}

// full is a writer that accepts some bytes and then fails.
type full struct{ room int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteReportsErrors(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	if err := Write(&whole, movie, samples); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 100, whole.Len() - 1} {
		if err := Write(&full{room}, movie, samples); !errors.Is(err, errFull) {
			t.Errorf("Write with room for %d bytes = %v, want %v", room, err, errFull)
		}
	}
}
