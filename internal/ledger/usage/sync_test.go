package usage_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/usage"
)

// lossyDisk keeps what a power cut would leave of each file. It behaves as Linux does when a sync fails:
// what was written before counts as written from then on, so a later sync succeeds without it.
type lossyDisk struct {
	t     *testing.T
	mu    sync.Mutex
	fails int                 // so many syncs fail from now on
	kept  map[uint64][]byte   // by inode: what is on the disk
	lost  map[uint64][][2]int // by inode: the ranges that a failed sync has dropped
}

func newLossyDisk(t *testing.T) *lossyDisk {
	return &lossyDisk{t: t, kept: map[uint64][]byte{}, lost: map[uint64][][2]int{}}
}

var errTired = errors.New("the disk is tired")

// Sync is for usage.JournalOptions.
func (d *lossyDisk) Sync(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	node := info.Sys().(*syscall.Stat_t).Ino
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	have, known := d.kept[node]
	if !known { // a file that is open keeps its inode
		keep, err := os.Open(f.Name())
		if err != nil {
			return err
		}
		d.t.Cleanup(func() { keep.Close() })
		d.kept[node] = nil
	}
	if d.fails > 0 {
		d.fails--
		d.lost[node] = append(d.lost[node], [2]int{len(trim(have)), len(trim(data))})
		return errTired
	}
	for _, r := range d.lost[node] {
		clear(data[r[0]:r[1]])
		copy(data[r[0]:r[1]], have[min(r[0], len(have)):min(r[1], len(have))])
	}
	d.kept[node] = data
	return nil
}

// trim returns data without the zeros at its end.
func trim(data []byte) []byte {
	for len(data) > 0 && data[len(data)-1] == 0 {
		data = data[:len(data)-1]
	}
	return data
}

// cut copies to a new folder what the disk has kept of the files in a folder.
func (d *lossyDisk) cut(t *testing.T, dir string) (after string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	after = t.TempDir()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		data := d.kept[info.Sys().(*syscall.Stat_t).Ino]
		if filepath.Base(path) == "mark" { // it is not synced, but may have reached the disk
			if data, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(after, filepath.Base(path)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return after
}

// A disk that fails a sync, and then says that all is well, loses nothing: after a power cut a second later
// every settlement is there.
func TestFailedSyncIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, each := range []bool{true, false} {
		for _, fails := range []int{1, 2, 5} {
			synctest.Test(t, func(t *testing.T) {
				disk := newLossyDisk(t)
				dir := t.TempDir()
				j := open(t, dir, &usage.JournalOptions{SyncEach: each, Sync: disk.Sync, SegmentBytes: 64 << 10})
				troubles := 0
				stop := running(t, j, func(error) { troubles++ })
				defer stop()
				want := appendAll(t, j, 0, 5)
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()

				disk.mu.Lock()
				disk.fails = fails
				disk.mu.Unlock()
				for n := 5; n < 10; n++ {
					s := settlement(n)
					_ = j.Append(&s) // what it could not sync or write is tried again
					want = append(want, s)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if troubles == 0 && !each {
					t.Error("nobody was told of the sync that failed")
				}
				if err := j.Ready(); err != nil {
					t.Errorf("Ready() = %v after the disk works again", err)
				}
				want = append(want, appendAll(t, j, 10, 12)...)
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()

				after := open(t, disk.cut(t, dir), nil)
				defer after.Close()
				got, _, err := after.Batch(nil, 100)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("SyncEach %t, %d failures: after a power cut Batch = %v, -want +got\n%s", each, fails, err, diff)
				}
				if d := after.Damage(); len(d) > 0 {
					t.Errorf("SyncEach %t, %d failures: Damage() = %+v, want none", each, fails, d)
				}
			})
		}
	}
}

// While the disk keeps nothing, no call is admitted, and the mark does not say that more was written than
// the disk has: a later start would take the difference for damage.
func TestNotReadyWhileSyncsFail(t *testing.T) {
	t.Parallel()
	for _, each := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			disk := newLossyDisk(t)
			dir := t.TempDir()
			j := open(t, dir, &usage.JournalOptions{SyncEach: each, Sync: disk.Sync, SegmentBytes: 64 << 10})
			defer running(t, j, func(error) {})()
			want := appendAll(t, j, 0, 5)
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			disk.mu.Lock()
			disk.fails = 1 << 30
			disk.mu.Unlock()
			for n := 5; n < 10; n++ {
				s := settlement(n)
				_ = j.Append(&s)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if err := j.Ready(); !errors.Is(err, errTired) {
				t.Errorf("SyncEach %t: Ready() = %v, want %v", each, err, errTired)
			}
			if n := segments(t, dir); n > 4 {
				t.Errorf("SyncEach %t: %d segments while the disk fails, want a few", each, n)
			}
			after := open(t, disk.cut(t, dir), nil)
			defer after.Close()
			got, _, err := after.Batch(nil, 100)
			if err != nil || len(got) < len(want) {
				t.Errorf("SyncEach %t: after a power cut Batch = %d, %v, want at least the %d that were synced", each, len(got), err, len(want))
			}
			if d := after.Damage(); len(d) > 0 {
				t.Errorf("SyncEach %t: Damage() = %+v: the mark counts what was never synced", each, d)
			}
		})
	}
}
