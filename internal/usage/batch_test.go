package usage_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/usage"
)

// frame is a record as it stands in a segment, its length and checksum before it.
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
	data, err := os.ReadFile(filepath.Join(dir, "000000000001.journal"))
	if err != nil {
		t.Fatal(err)
	}
	return data[8 : 8+binary.LittleEndian.Uint32(data)]
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
	small := frame(record(t, usage.Settlement{ID: "a", AccountID: "acct_1", At: time.UnixMilli(1)}))
	one := int64(len(small))
	tests := map[string]struct {
		mark string
		left int // of five
	}{
		"none":                 {"", 5},
		"garbage":              {"\x00\x00\x00\x00", 5},
		"half":                 {"1", 5},
		"a word":               {"one two\n", 5},
		"the first record":     {fmt.Sprintf("1 %d\n", one), 4},
		"the last record":      {fmt.Sprintf("1 %d\n", 5*one), 0},
		"inside a record":      {fmt.Sprintf("1 %d\n", one+7), 5},
		"the beginning":        {"1 0\n", 5},
		"before it":            {"1 -5\n", 5},
		"behind the end":       {fmt.Sprintf("1 %d\n", 6*one), 5},
		"far behind":           {"1 9223372036854775807\n", 5},
		"no such segment":      {fmt.Sprintf("2 %d\n", one), 5},
		"a number beyond all":  {"18446744073709551615 1\n", 5},
		"a number of no size":  {"99999999999999999999999 1\n", 5},
		"more than it may say": {fmt.Sprintf("1 %d 5\n", one), 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "000000000001.journal", append(bytes.Repeat(small, 5), make([]byte, 4096)...))
			if tt.mark != "" {
				write(t, dir, "committed", []byte(tt.mark))
			}
			for start := range 3 { // each adds one and dies
				j := open(t, dir, nil)
				got, _, err := j.Batch(nil, 100)
				if err != nil || len(got) != tt.left+start || j.Backlog().Records != int64(tt.left+start) {
					t.Fatalf("start %d: %d are offered, %v, and Backlog() = %+v, want %d", start, len(got), err, j.Backlog(), tt.left+start)
				}
				appendAll(t, j, start, start+1)
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
