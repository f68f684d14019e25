package responses

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
)

const (
	// maxWaiting is how many bytes of responses wait for the database in memory and in the journal at most. One that has no
	// room is stored in the database before its reply ends.
	maxWaiting = 64 << 20
	// maxJournaled is the largest response that the journal takes, in bytes. A larger one would be written twice.
	maxJournaled = 1 << 20
	// fileSize is how large a file grows before the next one is begun.
	fileSize = 4 << 20

	// A transaction moves at most this many responses and bytes.
	maxMoved      = 1000
	maxMovedBytes = 8 << 20
	// moveEvery is how long a response waits for the database at most, unless maxMovedBytes come together earlier.
	moveEvery = time.Second
	// lastMove is how long Run tries to move what is left when it ends.
	lastMove = 5 * time.Second
)

// Rows is the database behind a Journal.
type Rows interface {
	Store
	// MoveResponses is KeepResponses, and notes up to which number the responses of journals are stored. Both are one
	// transaction, which survives a power cut.
	MoveResponses(ctx context.Context, all []*Record, most Bound, marks []Mark) error
	// ResponseMarks returns up to which number the responses of each journal are stored.
	ResponseMarks(ctx context.Context) ([]Mark, error)
	// DropResponseMarks deletes the marks of all journals but some.
	DropResponseMarks(ctx context.Context, but []string) error
}

// Mark says up to which number the responses of a journal are stored.
type Mark struct {
	Journal string
	Number  uint64
}

// JournalOptions are the choices of OpenJournal; the zero value is the default.
type JournalOptions struct {
	// SyncEach makes every response survive a power cut, at the cost of a disk write for each. Otherwise a power cut can lose
	// those of the last second.
	SyncEach bool
	Log      *slog.Logger // default: no log
}

// Journal is a Store that has stored a response once it is written to a file, and moves it to the database later. What
// waits is also in memory, where every read looks first, so nobody can tell the difference. It is for a database that only
// this process uses: other nodes do not see what waits here.
//
// The database says how much of a journal it has, in the transaction that stores it. So a response is moved once, whenever
// the process dies, and one that was deleted does not come back.
type Journal struct {
	rows Rows
	dir  string
	opts JournalOptions
	wake chan struct{} // of size 1; makes Run move at once

	turn    chan struct{} // holds a token while responses are moved; not a mutex, because those who wait have deadlines
	trouble health.Trouble

	mu      sync.Mutex // guards what follows; held while a file is written, and not while the database is asked
	waiting []*held    // in the order of their coming
	byID    map[string]*held
	bytes   int64  // of what waits
	name    string // of what this process writes
	number  uint64 // of its last response
	begun   int    // how many files this process has begun
	files   []*file
	active  *file  // the one that is written to; nil: the next response begins one
	frame   []byte // memory for one frame
	closed  bool
}

// held is a response that is not in the database yet.
type held struct {
	*Record
	mark Mark // its place
}

// OpenJournal opens the journal in a folder, which it makes if it is missing, with what an earlier process left there. Only
// one process may use the folder. Opts may be nil.
func OpenJournal(ctx context.Context, dir string, rows Rows, opts *JournalOptions) (*Journal, error) {
	j := &Journal{rows: rows, dir: dir, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), byID: map[string]*held{}}
	if opts != nil {
		j.opts = *opts
	}
	if j.opts.Log == nil {
		j.opts.Log = slog.New(slog.DiscardHandler)
	}
	name := make([]byte, 8)
	rand.Read(name) // never fails
	j.name = hex.EncodeToString(name)
	if err := j.recover(ctx); err != nil {
		return nil, fmt.Errorf("open the journal of responses: %w", err)
	}
	return j, nil
}

// recover reads what earlier processes left. Responses that the database has are left out, and files that it has
// completely are deleted.
func (j *Journal) recover(ctx context.Context) error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	found, err := filesIn(j.dir)
	if err != nil {
		return err
	}
	marks, err := j.rows.ResponseMarks(ctx)
	if err != nil {
		return err
	}
	stored, names := map[string]uint64{}, []string{}
	for _, m := range marks {
		stored[m.Journal] = m.Number
	}
	for _, f := range found {
		names = append(names, f.journal)
		list, bad, err := f.read()
		if err != nil { // it stays for a start that can read it
			j.opts.Log.Warn("a file of the journal of responses cannot be read", "file", f.path, "error", err.Error())
			continue
		}
		if bad > 0 { // the end of a write that was cut off, which nobody was told of; or the disk
			j.opts.Log.Warn("a part of the journal of responses cannot be read", "file", f.path, "bytes", bad)
		}
		for _, h := range list {
			if f.last = max(f.last, h.mark.Number); h.mark.Number > stored[f.journal] {
				j.hold(h)
			}
		}
		j.files = append(j.files, f)
	}
	j.remove(stored)
	// Those of files that are gone: a mark is never deleted before its files. If that fails, the next start does it.
	if slices.ContainsFunc(marks, func(m Mark) bool { return !slices.Contains(names, m.Journal) }) {
		_ = j.rows.DropResponseMarks(ctx, names)
	}
	return nil
}

// hold adds a response to those that wait. The caller holds mu, or opens the journal.
func (j *Journal) hold(h *held) {
	j.waiting = append(j.waiting, h)
	j.byID[string(h.ID)] = h
	j.bytes += int64(len(h.Sealed))
}

// Append writes a response to the journal. If it returns false, the response has to be stored in the database: it is too
// large, what waits has no room for it, or the disk has refused it.
func (j *Journal) Append(r *Record) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := int64(len(r.Sealed))
	if j.closed || size > maxJournaled || j.bytes+size > maxWaiting {
		j.rouse()
		return false
	}
	if err := j.write(r); err != nil {
		j.trouble.Failed(j.opts.Log, "the journal of responses cannot be written, so responses are stored in the database at once", err)
		return false
	}
	j.trouble.Works(j.opts.Log, "the journal of responses can be written again")
	j.hold(&held{r, Mark{j.name, j.number}})
	if j.bytes > maxMovedBytes {
		j.rouse()
	}
	return true
}

// write appends the frame of a response to the active file. The caller holds mu.
func (j *Journal) write(r *Record) error {
	if j.active != nil && j.active.end >= fileSize {
		j.active = nil // it is deleted when the database has all of it
	}
	if j.active == nil {
		j.begun++
		f, err := createFile(j.dir, j.name, j.begun, j.opts.SyncEach)
		if err != nil {
			return err
		}
		j.files, j.active = append(j.files, f), f
	}
	j.frame = appendFrame(j.frame[:0], r, j.number+1)
	err := j.active.append(j.frame, j.opts.SyncEach)
	if cap(j.frame) > 2*maxMovedBytes/maxMoved {
		j.frame = nil // of a large one
	}
	// The number of one that failed is not used again either: something of it may be in the file.
	j.number++
	j.active.last = j.number
	if err != nil {
		j.active = nil
	}
	return err
}

// rouse makes Run do its work now.
func (j *Journal) rouse() { pace.Wake(j.wake) }

// Run moves responses to the database until ctx ends, and then those that are left. What cannot be moved waits for the
// next start.
func (j *Journal) Run(ctx context.Context) {
	var moving health.Trouble
	for range pace.Woken(ctx, moveEvery, j.wake) {
		if err := j.Flush(ctx); err == nil {
			moving.Works(j.opts.Log, "responses are moved to the database again")
		} else if ctx.Err() == nil {
			moving.Failed(j.opts.Log, "responses wait in their journal: the database does not accept them", err)
			j.sync()
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastMove)
	defer cancel()
	if err := j.Flush(last); err != nil {
		j.opts.Log.Warn("responses wait in their journal for the next start", "error", err.Error())
	}
}

// Flush moves everything that waits now to the database.
func (j *Journal) Flush(ctx context.Context) error {
	j.mu.Lock()
	n := len(j.waiting)
	j.mu.Unlock()
	if n == 0 {
		return nil
	}
	select {
	case j.turn <- struct{}{}:
		defer func() { <-j.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	j.mu.Lock()
	n = len(j.waiting)
	j.mu.Unlock()
	for n > 0 {
		moved, err := j.move(ctx)
		if err != nil {
			return fmt.Errorf("move responses to the database: %w", err)
		}
		n -= moved
	}
	return nil
}

// move moves the responses that have waited longest, and returns how many. The caller holds turn.
func (j *Journal) move(ctx context.Context) (int, error) {
	j.mu.Lock()
	n, size := 0, 0
	for n < len(j.waiting) && n < maxMoved && (n == 0 || size+len(j.waiting[n].Sealed) <= maxMovedBytes) {
		size += len(j.waiting[n].Sealed)
		n++
	}
	batch := j.waiting[:n:n]
	j.mu.Unlock()
	records, stored := make([]*Record, n), map[string]uint64{}
	for i, h := range batch {
		records[i] = h.Record
		stored[h.mark.Journal] = max(stored[h.mark.Journal], h.mark.Number)
	}
	marks := make([]Mark, 0, len(stored))
	for name, number := range stored {
		marks = append(marks, Mark{name, number})
	}
	if n == 0 {
		return 0, nil
	}
	if err := j.rows.MoveResponses(ctx, records, MaxAccount(), marks); err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range batch {
		j.bytes -= int64(len(h.Sealed))
		if j.byID[string(h.ID)] == h { // not one that came later under the same id
			delete(j.byID, string(h.ID))
		}
	}
	if j.waiting = j.waiting[n:]; len(j.waiting) == 0 {
		j.waiting = nil // with its memory
	}
	j.remove(stored)
	return n, nil
}

// remove deletes the files that the database has completely, so that nothing of a response is left here when its caller
// deletes it. The caller holds mu, or opens the journal.
func (j *Journal) remove(stored map[string]uint64) {
	j.files = slices.DeleteFunc(j.files, func(f *file) bool {
		if f.last > stored[f.journal] {
			return false
		}
		if f == j.active {
			j.active = nil
		}
		// If that fails, the next start reads the file and finds that the database has it.
		_ = f.remove()
		return true
	})
}

// sync makes what waits survive a power cut while the database does not accept it. An error is left alone: everything is
// in memory as well, and the next move is synced by the database.
func (j *Journal) sync() {
	j.mu.Lock()
	var dirty []*os.File
	for _, f := range j.files {
		if f.file != nil && f.dirty {
			f.dirty = false
			dirty = append(dirty, f.file)
		}
	}
	j.mu.Unlock()
	for _, f := range dirty {
		_ = f.Sync()
	}
}

// Close closes the journal. What waits stays in its files; Run must have returned.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	var errs []error
	for _, f := range j.files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// Recover moves what a journal holds to the database. It is for commands that work on a data folder without a server.
func Recover(ctx context.Context, dir string, rows Rows) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	j, err := OpenJournal(ctx, dir, rows, nil)
	if err != nil {
		return err
	}
	return errors.Join(j.Flush(ctx), j.Close())
}

// find returns a response that waits, and whether there is one. It has expired if the record is nil.
func (j *Journal) find(id []byte, now time.Time) (*Record, bool) {
	j.mu.Lock()
	h := j.byID[string(id)]
	j.mu.Unlock()
	if h == nil {
		return nil, false
	}
	if !h.ExpiresAt.After(now) {
		return nil, true
	}
	return h.Record, true
}

// Every read looks at what waits first, and then asks the database. A response leaves the former only when it is in the
// latter, so it is always found.

// KeepResponses implements Store: it stores responses in the database.
func (j *Journal) KeepResponses(ctx context.Context, all []*Record, most Bound) error {
	for _, r := range all {
		if _, ok := j.find(r.ID, time.Time{}); ok { // it must not replace this one later
			if err := j.Flush(ctx); err != nil {
				return err
			}
			break
		}
	}
	return j.rows.KeepResponses(ctx, all, most)
}

// FindResponses implements Store.
func (j *Journal) FindResponses(ctx context.Context, ids [][]byte, now time.Time) ([][]byte, error) {
	// The caller decrypts in place.
	return lookUp(j, ids, now, func(r *Record) []byte { return slices.Clone(r.Sealed) }, func(ids [][]byte) ([][]byte, error) { return j.rows.FindResponses(ctx, ids, now) })
}

// SizeResponses implements Store.
func (j *Journal) SizeResponses(ctx context.Context, ids [][]byte, now time.Time) ([]int64, error) {
	return lookUp(j, ids, now, func(r *Record) int64 { return int64(len(r.Sealed)) }, func(ids [][]byte) ([]int64, error) { return j.rows.SizeResponses(ctx, ids, now) })
}

// lookUp returns something of the responses with the ids, of those that wait and of those in the database.
func lookUp[T any](j *Journal, ids [][]byte, now time.Time, of func(*Record) T, stored func(ids [][]byte) ([]T, error)) ([]T, error) {
	out := make([]T, len(ids))
	var rest [][]byte
	var places []int
	for i, id := range ids {
		r, ok := j.find(id, now)
		switch {
		case !ok:
			rest, places = append(rest, id), append(places, i)
		case r != nil:
			out[i] = of(r)
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	found, err := stored(rest)
	if err != nil {
		return nil, err
	}
	for i, v := range found {
		out[places[i]] = v
	}
	return out, nil
}

// FollowResponses implements Store. Usually the newest responses of a conversation wait, and those before them are in the
// database; one that was too large for the journal may be between them.
func (j *Journal) FollowResponses(ctx context.Context, id []byte, now time.Time, most int) (links []Link, err error) {
	for len(links) < most {
		if r, ok := j.find(id, now); r != nil {
			links = append(links, Link{ID: r.ID, Previous: r.Previous, Size: int64(len(r.Sealed))})
		} else if ok {
			return links, nil
		} else {
			some, err := j.rows.FollowResponses(ctx, id, now, most-len(links))
			if err != nil {
				return nil, err
			}
			if len(some) == 0 {
				return links, nil
			}
			links = append(links, some...)
		}
		if id = links[len(links)-1].Previous; len(id) == 0 {
			break
		}
	}
	return links, nil
}

// DropResponse implements Store. One that waits is stored first: the database then knows that it has had it.
func (j *Journal) DropResponse(ctx context.Context, accountID string, id []byte) (bool, error) {
	if _, ok := j.find(id, time.Time{}); ok {
		if err := j.Flush(ctx); err != nil {
			return false, err
		}
	}
	return j.rows.DropResponse(ctx, accountID, id)
}

// ForgetResponses implements Store.
func (j *Journal) ForgetResponses(ctx context.Context, accountID string) error {
	if err := j.Flush(ctx); err != nil {
		return err
	}
	return j.rows.ForgetResponses(ctx, accountID)
}

// folderName is the folder of the journal in the data folder.
const folderName = "responses"

// JournalIn returns the folder of the journal in a data folder.
func JournalIn(data string) string { return filepath.Join(data, folderName) }
