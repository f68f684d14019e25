package usage_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/usage"
)

// frame is a record as it stands in a segment of format 1, its length and checksum before it.
func frame(raw []byte) []byte {
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(raw)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)))
	return append(head, raw...)
}

// record is a settlement as a journal writes it.
func record(t *testing.T, s usage.Settlement) []byte {
	t.Helper()
	dir := t.TempDir()
	j := open(t, dir, nil)
	defer j.Close()
	if err := j.Append(&s); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "000000000001.journal2"))
	if err != nil {
		t.Fatal(err)
	}
	return data[20 : 20+binary.LittleEndian.Uint32(data[4:])&0xffffff]
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A mark that makes no sense is no mark: the database gets everything again, which does no harm. In
// particular nothing is passed over, now or after the next start.
func TestMark(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	j := open(t, whole, small)
	appendAll(t, j, 0, 5)
	commit(t, j, 3)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files := snapshot(t, whole)
	mark := files["mark"]
	tests := map[string]struct {
		mark string
		left int // of five
	}{
		"as it was":           {mark, 2},
		"none":                {"", 5},
		"garbage":             {"\x00\x00\x00\x00", 5},
		"half":                {mark[:3], 5},
		"without an end":      {strings.TrimRight(mark, "\n"), 5},
		"more than it may be": {mark + "1\n", 5},
		"of format 1":         {"1 100\n", 5},
	}
	for i := range mark {
		flipped := []byte(mark)
		flipped[i] ^= 1 // a digit becomes another digit
		tests[fmt.Sprintf("byte %d", i)] = struct {
			mark string
			left int
		}{string(flipped), 5}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := memory(t)
			fill(t, dir, files)
			write(t, dir, "mark", []byte(tt.mark))
			for start := range 3 { // each adds one and dies
				j := open(t, dir, small)
				got, _, err := j.Batch(nil, 100)
				if err != nil || len(got) != tt.left+start || j.Backlog().Records != int64(tt.left+start) || len(j.Damage()) > 0 {
					t.Fatalf("start %d: %d are offered, %v, Backlog() = %+v, damage %+v; want %d", start, len(got), err, j.Backlog(), j.Damage(), tt.left+start)
				}
				appendAll(t, j, 100+start, 101+start)
			}
		})
	}
}

// Segments are read in the order of their numbers, whatever their names look like and whatever lies
// beside them.
func TestSegmentOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"9", "000000000010", "2", "00000000000000000700"} {
		write(t, dir, name+".journal", append(frame(record(t, usage.Settlement{ID: strings.TrimLeft(name, "0")})), make([]byte, 100)...))
	}
	write(t, dir, "000000000005.journal", make([]byte, 100)) // a spare that was left
	for _, name := range []string{"notes.txt", "x.journal", "-1.journal", "3.journal.old", "committed.new"} {
		write(t, dir, name, frame(record(t, usage.Settlement{ID: "stranger"})))
	}
	j := open(t, dir, nil)
	appendAll(t, j, 1, 2)
	got, _, err := j.Batch(nil, 100)
	var ids []string
	for i := range got {
		ids = append(ids, got[i].ID)
	}
	if want := []string{"2", "9", "10", "700", settlement(1).ID}; err != nil || !cmp.Equal(ids, want) {
		t.Errorf("Batch = %q, %v, want %q", ids, err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.journal")); err != nil {
		t.Errorf("a file of somebody else is gone: %v", err)
	}
}

// A newer program may add to a record; what it adds is left alone. What cannot be read at all must not
// be passed over: it is somebody's money.
func TestRecordFormats(t *testing.T) {
	t.Parallel()
	want := settlement(3)
	dir := t.TempDir()
	write(t, dir, "000000000001.journal", append(frame(append(record(t, want), "more"...)), make([]byte, 64)...))
	got, _, err := open(t, dir, nil).Batch(nil, 100)
	if diff := cmp.Diff([]usage.Settlement{want}, got); err != nil || diff != "" {
		t.Errorf("Batch of a record with more in it: %v, -want +got\n%s", err, diff)
	}

	other := record(t, want)
	other[0]++ // its version
	for name, raw := range map[string][]byte{
		"another version": other,
		"cut":             record(t, want)[:20],
		"a text too long": {1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"one byte":        {1},
		"a text":          []byte(`{"id":"a"}`),
	} {
		dir := t.TempDir()
		write(t, dir, "000000000001.journal", append(frame(raw), make([]byte, 64)...))
		if _, err := usage.OpenJournal(dir, nil); err == nil || !strings.Contains(err.Error(), "000000000001.journal") {
			t.Errorf("%s: OpenJournal = %v, want an error that names the file", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "000000000001.journal")); err != nil {
			t.Errorf("%s: the segment afterwards: %v, want it left as it is", name, err)
		}
	}
}
