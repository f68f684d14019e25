package usage_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/usage"
)

// small makes segments of a few records, so that a short journal has several.
var small = &usage.JournalOptions{SegmentBytes: 1 << 10}

// chained returns the files of a journal with so many settlements, the first few of which are committed.
func chained(t *testing.T, opts *usage.JournalOptions, records, committed int) map[string]string {
	t.Helper()
	dir := t.TempDir()
	j := open(t, dir, opts)
	for n := range records {
		if j.Ready() != nil { // the next file is made by Run, which does not run here, or by opening
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = open(t, dir, opts)
		}
		appendAll(t, j, n, n+1)
	}
	commit(t, j, committed)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return snapshot(t, dir)
}

// unchained returns the files of a journal of format 1.
func unchained(t *testing.T, records int) map[string]string {
	t.Helper()
	files := map[string]string{}
	for n := range records {
		name := fmt.Sprintf("%012d.journal", 1+n/5)
		files[name] += string(frame(record(t, settlement(n))))
	}
	for name := range files {
		files[name] += strings.Repeat("\x00", 100)
	}
	return files
}

// memory returns a folder for thousands of journals. Where there is a file system in memory, nothing waits
// for a disk.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sluice-journal-")
	if err != nil {
		return filepath.Join(t.TempDir(), "journal")
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "journal")
}

// fill makes a folder hold these files and nothing else.
func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		write(t, dir, name, []byte(data))
	}
}

// lost returns how many settlements the reports say are lost.
func lost(list []usage.Damage) (n int64) {
	for _, d := range list {
		n += d.Lost
	}
	return n
}

// same reports whether two settlements are equal. cmp.Equal takes too long for millions of them.
func same(a, b usage.Settlement) bool {
	if (a.Cost == nil) != (b.Cost == nil) || a.Cost != nil && *a.Cost != *b.Cost || !slices.Equal(a.Terms.Uses, b.Terms.Uses) {
		return false
	}
	a.Cost, b.Cost = nil, nil
	a.Terms.Uses, b.Terms.Uses = nil, nil
	return reflect.DeepEqual(a, b) // both times are in UTC
}

// examine opens a journal whose settlements are those of settlement, the first few of which are in the
// database, and returns what is wrong: a settlement that is neither offered nor reported, or is another
// one than before. The journal must go on as if nothing had happened; again says whether to try that.
func examine(t *testing.T, dir string, records, committed int, again bool) (wrong string) {
	t.Helper()
	j, err := usage.OpenJournal(dir, small)
	if err != nil {
		return fmt.Sprintf("OpenJournal = %v", err)
	}
	got, _, err := j.Batch(nil, 10*records)
	if err != nil {
		return fmt.Sprintf("Batch = %v", err)
	}
	seen := map[string]bool{}
	for _, s := range got {
		n, err := strconv.Atoi(strings.TrimPrefix(s.ID, "request-"))
		if err != nil || n >= records || !same(s, settlement(n)) {
			return fmt.Sprintf("%q is not what was written", s.ID)
		}
		seen[s.ID] = true
	}
	missing := int64(0)
	for n := committed; n < records; n++ {
		if !seen[settlement(n).ID] {
			missing++
		}
	}
	damage := j.Damage()
	if lost(damage) < missing {
		return fmt.Sprintf("%d settlements are missing, and the reports are %+v", missing, damage)
	}
	for _, d := range damage {
		if d.Kept != "" {
			if _, err := os.Stat(d.Kept); err != nil {
				return fmt.Sprintf("the damaged file is not kept: %v", err)
			}
		}
	}
	if !again {
		if err := j.Close(); err != nil {
			return fmt.Sprintf("Close = %v", err)
		}
		return ""
	}
	// What is written next is whole, and what was reported is not reported again.
	s := settlement(records)
	if err := j.Append(&s); err != nil {
		return fmt.Sprintf("Append = %v", err)
	}
	if err := j.Close(); err != nil {
		return fmt.Sprintf("Close = %v", err)
	}
	next, err := usage.OpenJournal(dir, small)
	if err != nil {
		return fmt.Sprintf("the second OpenJournal = %v", err)
	}
	defer next.Close()
	if diff := cmp.Diff(damage, next.Damage()); diff != "" {
		return "the second start reports something else:\n" + diff
	}
	if more, _, err := next.Batch(nil, 10*records); err != nil || len(more) != len(got)+1 {
		return fmt.Sprintf("the second start offers %d settlements, %v, want %d", len(more), err, len(got)+1)
	}
	return ""
}

// A write that a power cut has torn at any byte costs nothing of what was before it.
func TestTornAtEveryByte(t *testing.T) {
	t.Parallel()
	const records = 8
	files := chained(t, small, records, 0)
	var last string // the file with the newest records
	for file, data := range files {
		if file[0] >= '0' && file[0] <= '9' && strings.TrimRight(data, "\x00") != "" && file > last {
			last = file
		}
	}
	data := files[last]
	end := len(strings.TrimRight(data, "\x00"))
	dir := memory(t)
	for at := range end {
		torn := maps.Clone(files)
		torn[last] = data[:at] + strings.Repeat("\x00", len(data)-at)
		fill(t, dir, torn)
		j, err := usage.OpenJournal(dir, small)
		if err != nil {
			t.Fatalf("torn at byte %d of %d: %v", at, end, err)
		}
		got, _, err := j.Batch(nil, 10*records)
		if err != nil || len(got) > records {
			t.Fatalf("torn at byte %d of %d: Batch = %d, %v", at, end, len(got), err)
		}
		for i := range got {
			if got[i].ID != settlement(i).ID {
				t.Fatalf("torn at byte %d of %d: settlement %d is %s", at, end, i, got[i].ID)
			}
		}
		s := settlement(100)
		if err := j.Append(&s); err != nil {
			t.Fatalf("torn at byte %d of %d: Append = %v", at, end, err)
		}
		if more, _, err := j.Batch(nil, 10*records); err != nil || len(more) != len(got)+1 {
			t.Fatalf("torn at byte %d of %d: Batch = %d, %v, want %d and the new one", at, end, len(more), err, len(got))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// No byte of a journal can be flipped without all settlements being offered all the same, or a report of
// what is lost.
func TestEveryByteFlipped(t *testing.T) {
	t.Parallel()
	flips := []byte{0xff}
	if os.Getenv("SLUICE_SOAK") != "" {
		flips = []byte{0xff, 1, 2, 4, 8, 16, 32, 64, 128, 0x53, 0x52}
	}
	for name, tt := range map[string]struct {
		files              map[string]string
		records, committed int
	}{
		"format 1":             {unchained(t, 7), 7, 0},
		"format 2, half moved": {chained(t, small, 8, 3), 8, 3},
	} {
		for file, data := range tt.files {
			t.Run(name+", "+file, func(t *testing.T) {
				t.Parallel()
				dir := memory(t)
				files := maps.Clone(tt.files)
				end := min(len(strings.TrimRight(data, "\x00"))+3, len(data)) // and a few of the zeros
				for at := range end {
					for _, flip := range flips {
						damaged := []byte(data)
						damaged[at] ^= flip
						files[file] = string(damaged)
						fill(t, dir, files)
						if wrong := examine(t, dir, tt.records, tt.committed, at%5 == 0 || len(flips) > 1); wrong != "" {
							t.Fatalf("byte %d of %s ^ %#x: %s", at, file, flip, wrong)
						}
					}
				}
			})
		}
	}
}

// The same with a large journal, at places that are chosen by chance, and with whole pages that are lost.
func TestLargeJournalDamaged(t *testing.T) {
	t.Parallel()
	records, rounds := 300, 20
	if os.Getenv("SLUICE_SOAK") != "" {
		records, rounds = 9000, 600 // 1 MB
	}
	seed := rand.Uint64() >> 1
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	random := rand.New(rand.NewPCG(seed, 15))
	whole := chained(t, &usage.JournalOptions{SegmentBytes: 128 << 10}, records, records/10)
	names := slices.Sorted(maps.Keys(whole))
	dir, bytesAll := memory(t), 0
	for _, data := range whole {
		bytesAll += len(strings.TrimRight(data, "\x00"))
	}
	for round := range rounds {
		name := names[random.IntN(len(names))]
		data := []byte(whole[name])
		end := len(bytes.TrimRight(data, "\x00"))
		at := random.IntN(end)
		what := "flipped"
		switch random.IntN(4) {
		case 0:
			what = "a page of zeros"
			clear(data[at:min(at+4096, len(data))])
		case 1:
			what = "a page of noise"
			for i := at; i < min(at+4096, len(data)); i++ {
				data[i] = byte(random.Uint32())
			}
		default:
			data[at] ^= byte(1 + random.IntN(255))
		}
		files := maps.Clone(whole)
		files[name] = string(data)
		fill(t, dir, files)
		if wrong := examine(t, dir, records, records/10, true); wrong != "" {
			t.Fatalf("SLUICE_SEED=%d, round %d: %s at byte %d of %s: %s", seed, round, what, at, name, wrong)
		}
	}
	t.Logf("soak: %d damages of a journal of %d bytes, none silent; SLUICE_SEED=%d", rounds, bytesAll, seed)
}

// Reports say how many settlements are lost, exactly where the numbers tell it.
func TestDamageIsExact(t *testing.T) {
	t.Parallel()
	whole := chained(t, small, 30, 0)
	names := slices.Sorted(maps.Keys(whole)) // the segments, then the mark
	if len(names) < 5 {
		t.Fatalf("the journal has the files %q, want at least four segments", names)
	}
	// at returns where the id of a settlement is in a file.
	at := func(file string, record int) int {
		i := strings.Index(whole[file], settlement(record).ID)
		if i < 0 {
			t.Fatalf("settlement %d is not in %s", record, file)
		}
		return i
	}
	second := strings.Count(whole[names[0]], "request-") // the first settlement of the second file
	count := func(file string) int64 { return int64(strings.Count(whole[file], "request-")) }
	tests := map[string]struct {
		edit  func(files map[string]string)
		lost  int64
		exact bool
	}{
		"nothing": {func(map[string]string) {}, 0, true},
		"one record": {func(f map[string]string) {
			data := []byte(f[names[1]])
			data[at(names[1], second+1)] ^= 1
			f[names[1]] = string(data)
		}, 1, true},
		"a file in the middle is gone": {func(f map[string]string) { delete(f, names[1]) }, count(names[1]), true},
		"the first file is gone":       {func(f map[string]string) { delete(f, names[0]) }, count(names[0]), true},
		"the last file is gone":        {func(f map[string]string) { delete(f, names[len(names)-2]) }, count(names[len(names)-2]), true},
		"all files are gone": {func(f map[string]string) {
			for _, name := range names[:len(names)-1] {
				delete(f, name)
			}
		}, 30, true},
		"the end of a file in the middle": {func(f map[string]string) {
			f[names[1]] = f[names[1]][:at(names[1], second+1)]
		}, count(names[1]) - 1, true},
		"the end of the last file": {func(f map[string]string) {
			name := names[len(names)-2]
			f[name] = f[name][:at(name, 29)]
		}, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(whole)
			tt.edit(files)
			dir := filepath.Join(t.TempDir(), "journal")
			fill(t, dir, files)
			if wrong := examine(t, dir, 30, 0, true); wrong != "" {
				t.Fatal(wrong)
			}
			j := open(t, dir, small)
			defer j.Close()
			list := j.Damage()
			exact := true
			for _, d := range list {
				exact = exact && !d.AtMost
			}
			if lost(list) != tt.lost || exact != tt.exact || (tt.lost > 0) != (len(list) == 1) {
				t.Errorf("Damage() = %+v, want one report of %d lost, exact: %t", list, tt.lost, tt.exact)
			}
		})
	}
}

// Damage that appears while the journal is in use is found by whoever reads next. Calls go on, nothing
// else is lost, and it is reported once, until somebody acknowledges it.
func TestDamageWhileRunning(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ records, hit, committed int }{
		{30, 10, 0},  // in the middle
		{30, 0, 0},   // the first
		{30, 29, 0},  // the last
		{30, 10, 20}, // the database has it
	} {
		t.Run(fmt.Sprintf("%d of %d, %d moved", tt.hit, tt.records, tt.committed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			told := 0
			opts := &usage.JournalOptions{SegmentBytes: 64 << 10, Damaged: func(usage.Damage) { told++ }}
			j := open(t, dir, opts)
			appendAll(t, j, 0, tt.records)
			commit(t, j, tt.committed)
			path := filepath.Join(dir, "000000000001.journal2")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(data, []byte(settlement(tt.hit).ID))
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte{data[at] ^ 0xff}, int64(at)); err != nil {
				t.Fatal(err)
			}
			f.Close()
			want := int64(1)
			if tt.hit < tt.committed {
				want = 0
			}
			if held, err := j.Since(settlement(0).At.AddDate(-1, 0, 0)); err != nil || len(held) != tt.records-1 {
				t.Errorf("Since = %d, %v, want all but one of %d", len(held), err, tt.records)
			}
			got, _, err := j.Batch(nil, 100)
			if left := tt.records - tt.committed - int(want); err != nil || len(got) != left || j.Backlog().Records != int64(left) {
				t.Errorf("Batch = %d, %v, Backlog() = %+v, want %d", len(got), err, j.Backlog(), left)
			}
			appendAll(t, j, 100, 105)
			if list := j.Damage(); len(list) != 1 || list[0].Lost != want || list[0].AtMost || list[0].Stored != 1-want || told != 1 {
				t.Errorf("Damage() = %+v, told %d times, want one report of %d lost", list, told, want)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir, opts)
			if got, _, err := again.Batch(nil, 100); err != nil || len(got) != tt.records-tt.committed-int(want)+5 {
				t.Errorf("the next start offers %d, %v", len(got), err)
			}
			if list := again.Damage(); len(list) != 1 || told != 1 {
				t.Errorf("the next start reports %+v, told %d times; want the same", list, told)
			}
			if seen, err := again.Acknowledge("ana"); err != nil || len(seen) != 1 || seen[0].By != "ana" || len(again.Damage()) != 0 {
				t.Errorf("Acknowledge = %+v, %v", seen, err)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			last := open(t, dir, opts)
			defer last.Close()
			if list := last.Damage(); len(list) != 0 {
				t.Errorf("Damage() after it was acknowledged = %+v, want none", list)
			}
			if kept, _ := filepath.Glob(filepath.Join(dir, "damaged", "*.journal2")); len(kept) != 1 {
				t.Errorf("kept aside: %q, want the damaged file", kept)
			}
		})
	}
}
