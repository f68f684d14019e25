package responses

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

// rows is a database in memory. It is safe for concurrent use, except for what tests set while nothing runs.
type rows struct {
	mu sync.Mutex
	memory
	marks map[string]uint64
	moves int
}

func newRows() *rows {
	return &rows{memory: memory{records: map[string]*Record{}}, marks: map[string]uint64{}}
}

// fail makes every later transaction fail; nil: none.
func (r *rows) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *rows) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records)
}

func (r *rows) KeepResponses(ctx context.Context, all []*Record, most Bound) error {
	return r.MoveResponses(ctx, all, most, nil)
}

func (r *rows) MoveResponses(ctx context.Context, all []*Record, most Bound, marks []Mark) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moves++
	if err := r.memory.KeepResponses(ctx, all, most); err != nil {
		return err
	}
	for _, m := range marks {
		r.marks[m.Journal] = m.Number
	}
	return nil
}

func (r *rows) FindResponses(ctx context.Context, ids [][]byte, now time.Time) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.FindResponses(ctx, ids, now)
}

func (r *rows) SizeResponses(ctx context.Context, ids [][]byte, now time.Time) ([]int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.SizeResponses(ctx, ids, now)
}

func (r *rows) FollowResponses(ctx context.Context, id []byte, now time.Time, most int) ([]Link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.FollowResponses(ctx, id, now, most)
}

func (r *rows) DropResponse(ctx context.Context, accountID string, id []byte) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return false, r.err
	}
	return r.memory.DropResponse(ctx, accountID, id)
}

func (r *rows) ForgetResponses(ctx context.Context, accountID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.ForgetResponses(ctx, accountID)
}

func (r *rows) ResponseMarks(context.Context) (list []Mark, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, number := range r.marks {
		list = append(list, Mark{name, number})
	}
	return list, nil
}

func (r *rows) DropResponseMarks(_ context.Context, but []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.marks, func(name string, _ uint64) bool { return !slices.Contains(but, name) })
	return nil
}

// reopen opens the journal as the next process does after this one was killed.
func reopen(t *testing.T, j *Journal, dir string, db Rows) *Journal {
	t.Helper()
	if j != nil {
		for _, f := range j.files { // the system closes them
			_ = f.close()
		}
	}
	j, err := OpenJournal(t.Context(), dir, db, nil)
	if err != nil {
		t.Fatalf("OpenJournal = %v", err)
	}
	return j
}

// Whatever happens, an archive on a journal does what a map does: every response that was kept is found until it is
// deleted, and none comes back, although the process is killed and the database fails at any time.
func TestJournalLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		db, dir := newRows(), filepath.Join(t.TempDir(), "responses")
		key, now := seal.NewKey(), time.Unix(1_700_000_000, 0)
		var j *Journal
		var s *Archive
		start := func() {
			j = reopen(t, j, dir, db)
			s = NewArchive(j, &ArchiveOptions{Key: key, Now: func() time.Time { return now }})
		}
		start()
		type kept struct{ account, previous, text string }
		want := map[string]kept{}
		check := func(step string, id string) {
			t.Helper()
			k, there := want[id]
			found, err := s.Find(t.Context(), k.account, id, nil)
			if there && (err != nil || !strings.Contains(string(found), k.text)) {
				t.Fatalf("seed %d, %s: Find(%s) = %.60s, %v, want %s", seed, step, id, found, err, k.text)
			}
			if !there && !fault.Is(err, fault.NotFound) {
				t.Fatalf("seed %d, %s: Find(%s) = %.60s, %v, want that it is not found", seed, step, id, found, err)
			}
		}
		ids := []string{}
		for n := range 60 {
			switch step := random.IntN(12); step {
			case 0:
				start()
			case 1:
				err := j.Flush(t.Context())
				if n := len(j.waiting); err == nil && n > 0 {
					t.Fatalf("seed %d: %d responses wait after Flush", seed, n)
				}
			case 2:
				db.fail(errors.New("no database"))
				_ = j.Flush(t.Context())
				for id := range want { // what waits is found, and what does not is told to be unavailable
					if _, err := s.Find(t.Context(), want[id].account, id, nil); err != nil && !fault.Is(err, fault.Unavailable) {
						t.Fatalf("seed %d: Find without a database = %v", seed, err)
					}
				}
				if random.IntN(2) == 0 {
					start()
				}
				db.fail(nil)
			case 3, 4:
				if len(ids) > 0 {
					id := ids[random.IntN(len(ids))]
					_, there := want[id]
					err := s.Delete(t.Context(), want[id].account, id)
					if there != (err == nil) || !there && !fault.Is(err, fault.NotFound) {
						t.Fatalf("seed %d: Delete = %v, want it there: %t", seed, err, there)
					}
					delete(want, id)
					check("delete", id)
				}
			case 5:
				if account := fmt.Sprint("acct", random.IntN(3)); random.IntN(4) == 0 {
					if err := s.Forget(t.Context(), account); err != nil {
						t.Fatal(err)
					}
					maps.DeleteFunc(want, func(_ string, k kept) bool { return k.account == account })
				}
			default:
				k := kept{account: fmt.Sprint("acct", random.IntN(3)), text: fmt.Sprintf("text %d %x", n, random.Uint64())}
				r := &Request{}
				if len(ids) > 0 && random.IntN(2) == 0 {
					if last := ids[len(ids)-1]; want[last].account != "" {
						k.account, k.previous, r.Previous = want[last].account, last, last
					}
				}
				id := ResponseID(fmt.Sprintf("%x%x", n, seed))
				padding := ""
				if random.IntN(40) == 0 { // too large for the journal
					padding = strings.Repeat("x", maxJournaled)
				}
				response := fmt.Sprintf(`{"id":%q,"previous_response_id":%q,"output":[{"text":%q,"padding":%q}]}`, id, k.previous, k.text, padding)
				if err := s.Keep(t.Context(), k.account, r, id, []byte(response)); err != nil {
					t.Fatalf("seed %d: Keep = %v", seed, err)
				}
				want[id], ids = k, append(ids, id)
			}
			if len(ids) > 0 {
				for range 3 {
					check("end of a step", ids[random.IntN(len(ids))])
				}
				checkChain(t, s, seed, ids[len(ids)-1], func(id string) (account, previous string, ok bool) {
					k, ok := want[id]
					return k.account, k.previous, ok
				})
			}
		}
		start()
		for _, id := range ids {
			check("the end", id)
		}
		if err := errors.Join(j.Flush(t.Context()), j.Close()); err != nil {
			t.Fatal(err)
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 || len(db.records) != len(want) {
			t.Fatalf("seed %d: %d files and %d rows at the end, want none and %d", seed, len(files), len(db.records), len(want))
		}
	}
}

// checkChain compares a conversation with what find says of its responses.
func checkChain(t *testing.T, s *Archive, seed uint64, id string, find func(id string) (account, previous string, ok bool)) {
	t.Helper()
	account, _, ok := find(id)
	if !ok {
		return
	}
	var want [][]byte
	for at := id; at != ""; {
		own, previous, there := find(at)
		if !there || own != account {
			break
		}
		want = append(want, s.name(account, at))
		at = previous
	}
	links, err := s.store.FollowResponses(t.Context(), s.name(account, id), s.now(), maxTurns)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for _, l := range links {
		got = append(got, l.ID)
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("seed %d: a conversation has %d responses, want %d", seed, len(got), len(want))
	}
}

// record returns a response of a size.
func record(id string, size int) *Record {
	return &Record{ID: []byte(id), AccountID: "acct", Previous: []byte{}, Sealed: bytes.Repeat([]byte(id[:1]), size), ExpiresAt: time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()}
}

// A file that ends anywhere, or in which a byte is wrong, has all responses that are whole.
func TestJournalDamage(t *testing.T) {
	t.Parallel()
	db, dir := newRows(), t.TempDir()
	j := reopen(t, nil, dir, db)
	var ends []int64
	for _, id := range []string{"a", "b", "c"} {
		if !j.Append(record(id, 40)) {
			t.Fatal("Append = false")
		}
		ends = append(ends, j.active.end)
	}
	path := j.active.path
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := func(data []byte) string {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		again := reopen(t, nil, dir, db)
		var ids []string
		for _, h := range again.waiting {
			if h.AccountID != "acct" || len(h.Sealed) != 40 || h.Sealed[0] != h.ID[0] || !h.ExpiresAt.After(time.Now()) {
				t.Errorf("a response came back as %+v", h.Record)
			}
			ids = append(ids, string(h.ID))
		}
		return strings.Join(ids, "")
	}
	// What cannot be read at all keeps nobody from starting.
	unreadable := filepath.Join(dir, "0-000001.responses")
	if err := os.Mkdir(unreadable, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		want := ""
		for i, id := range []string{"a", "b", "c"} {
			if int64(n) >= ends[i] {
				want += id
			}
		}
		if got := found(whole[:n]); got != want {
			t.Errorf("the first %d bytes have %q, want %q", n, got, want)
		}
		want = ""
		for i, id := range []string{"a", "b", "c"} {
			if int64(n) >= ends[i] || i > 0 && int64(n) < ends[i-1] {
				want += id
			}
		}
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x10
		if got := found(flipped); got != want {
			t.Errorf("with a wrong byte %d there is %q, want %q", n, got, want)
		}
	}
}

// If the disk refuses a response, if it is too large, or if too many wait, it is in the database before Keep returns.
func TestJournalRefuses(t *testing.T) {
	t.Parallel()
	db := newRows()
	dir := t.TempDir()
	j := reopen(t, nil, dir, db)
	s := NewArchive(j, nil)
	keep := func(id string, size, stored int) {
		t.Helper()
		if err := s.keep(t.Context(), record(id, size)); err != nil || db.size() != stored {
			t.Errorf("keep(%s) = %v with %d rows, want %d", id, err, db.size(), stored)
		}
	}
	keep("a", 10, 0)
	keep("large", maxJournaled+1, 1)
	_ = j.active.file.Close()
	keep("no disk", 10, 2)
	keep("b", 10, 2) // into a new file
	db.fail(errors.New("no database"))
	n := 0
	for size := int64(0); size+maxJournaled <= maxWaiting-20; size += maxJournaled {
		if n++; !j.Append(record(fmt.Sprint("c", n), maxJournaled)) {
			t.Fatalf("Append refused number %d", n)
		}
	}
	if err := s.keep(t.Context(), record("one more", maxJournaled)); err == nil {
		t.Error("a response was kept that is neither in the journal nor in the database")
	}
	db.fail(nil)
	keep("one more", maxJournaled, 3)
	// A number that was given up must not hide the responses that follow it.
	j = reopen(t, j, dir, db)
	if err := errors.Join(j.Flush(t.Context()), j.Close()); err != nil || db.size() != 3+2+n {
		t.Errorf("%d rows, %v, want %d", db.size(), err, 3+2+n)
	}
}

// Run moves what waits within a second, tries again when the database fails, and moves the rest at its end.
func TestJournalRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newRows()
		j := reopen(t, nil, t.TempDir(), db)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { j.Run(ctx); close(done) }()
		for i := range maxMoved + 1 {
			j.Append(record(fmt.Sprint("a", i), 10))
		}
		time.Sleep(moveEvery)
		synctest.Wait()
		if db.size() != maxMoved+1 || db.moves != 2 {
			t.Errorf("%d rows after a second, in %d transactions, want %d in 2", db.size(), db.moves, maxMoved+1)
		}
		db.fail(errors.New("no database"))
		j.Append(record("b", 10))
		time.Sleep(3 * moveEvery)
		db.fail(nil)
		time.Sleep(moveEvery)
		synctest.Wait()
		if db.size() != maxMoved+2 {
			t.Errorf("%d rows after an outage, want %d", db.size(), maxMoved+2)
		}
		j.Append(record("c", 10))
		cancel()
		<-done
		if err := j.Close(); err != nil || db.size() != maxMoved+3 {
			t.Errorf("%d rows at the end, %v, want %d", db.size(), err, maxMoved+3)
		}
		if j.Append(record("d", 10)) {
			t.Error("a closed journal has taken a response")
		}
	})
}

// Callers who keep, find and delete at the same time always find what they have kept.
func TestJournalConcurrently(t *testing.T) {
	t.Parallel()
	db := newRows()
	j := reopen(t, nil, t.TempDir(), db)
	s := NewArchive(j, &ArchiveOptions{Key: seal.NewKey()})
	ctx, cancel := context.WithCancel(t.Context())
	var moving, callers sync.WaitGroup
	moving.Go(func() {
		for ctx.Err() == nil {
			_ = j.Flush(ctx)
		}
	})
	for c := range 8 {
		callers.Go(func() {
			for n := range 200 {
				id := ResponseID(fmt.Sprintf("%d%d", c, n))
				if err := s.Keep(t.Context(), "acct", &Request{}, id, fmt.Appendf(nil, `{"id":%q}`, id)); err != nil {
					t.Errorf("Keep = %v", err)
				}
				for range 3 {
					if found, err := s.Find(t.Context(), "acct", id, nil); err != nil || !strings.Contains(string(found), id) {
						t.Errorf("Find(%s) = %s, %v", id, found, err)
					}
				}
				if n%3 == 0 {
					if err := s.Delete(t.Context(), "acct", id); err != nil {
						t.Errorf("Delete = %v", err)
					}
					if _, err := s.Find(t.Context(), "acct", id, nil); !fault.Is(err, fault.NotFound) {
						t.Errorf("Find after Delete = %v", err)
					}
				}
			}
		})
	}
	callers.Wait()
	cancel()
	moving.Wait()
}

// BenchmarkKeep tells what storing a response takes before its reply ends.
func BenchmarkKeep(b *testing.B) {
	db := newRows()
	j, err := OpenJournal(b.Context(), b.TempDir(), db, nil)
	if err != nil {
		b.Fatal(err)
	}
	s := NewArchive(j, &ArchiveOptions{Key: seal.NewKey()})
	response := fmt.Appendf(nil, `{"id":"resp_1","output":[%q]}`, strings.Repeat("x", 2000))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if err := s.Keep(b.Context(), "acct", &Request{}, ResponseID(fmt.Sprint(n)), response); err != nil {
			b.Fatal(err)
		}
		if n%1000 == 999 {
			b.StopTimer()
			if err := j.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			clear(db.records)
			b.StartTimer()
		}
	}
}
