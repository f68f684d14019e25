// Package blobtest is the conformance suite for every implementation of file storage.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/internal/video/blob"
)

// Files is the interface that the suite tests. blob.Disk and blob.S3 implement it.
type Files interface {
	Put(ctx context.Context, name string, fill func(io.Writer) error) (blob.Info, error)
	Open(ctx context.Context, name string) (io.ReadSeekCloser, error)
	Delete(ctx context.Context, name string) error
	Sweep(before time.Time) error
	Check(ctx context.Context) error
}

// Run runs the suite. The function fresh returns an empty storage and the folder that holds its
// unfinished files. Every test must leave that folder empty.
func Run(t *testing.T, fresh func(t *testing.T) (f Files, unfinished string)) {
	tests := map[string]func(*testing.T, Files, string){
		"PutAndOpen": putAndOpen,
		"Seek":       seek,
		"Replace":    replace,
		"NotThere":   notThere,
		"Failed":     failed,
		"Canceled":   canceled,
		"Delete":     deleted,
		"Sweep":      sweep,
		"Many":       many,
		"Serve":      serve,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, dir := fresh(t)
			test(t, f, dir)
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("unfinished files are left: %q", left)
			}
		})
	}
}

// leftovers returns the names of the files in the spool folder.
func leftovers(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is made when it is needed
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// content returns n bytes that do not repeat with a short period, so that a misplaced range is
// noticed.
func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// put stores b in small writes and fails the test on any error.
func put(t *testing.T, f Files, name string, b []byte) blob.Info {
	t.Helper()
	info, err := f.Put(t.Context(), name, func(w io.Writer) error {
		for part := b; len(part) > 0; { // as renderers do, in pieces
			n := min(len(part), 1000)
			if _, err := w.Write(part[:n]); err != nil {
				return err
			}
			part = part[n:]
		}
		return nil
	})
	if err != nil {
		t.Fatalf("Put(%s) = %v", name, err)
	}
	return info
}

// read returns the content of a file and fails the test on any error.
func read(t *testing.T, f Files, name string) []byte {
	t.Helper()
	r, err := f.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("Open(%s) = %v", name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("reading %s = %v", name, err)
	}
	return b
}

// putAndOpen checks files of one byte, of a hundred kilobytes, and of several megabytes.
func putAndOpen(t *testing.T, f Files, _ string) {
	for _, n := range []int{1, 100_000, 6 << 20} {
		name, want := fmt.Sprintf("videos/job-%d.mp4", n), content(n)
		info := put(t, f, name, want)
		sum := sha256.Sum256(want)
		if info.Size != int64(n) || info.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("Put(%s) = %+v, want %d bytes and their sum", name, info, n)
		}
		if got := read(t, f, name); !bytes.Equal(got, want) {
			t.Errorf("%s holds %d bytes, want the %d that were put", name, len(got), n)
		}
	}
	if err := f.Check(t.Context()); err != nil {
		t.Errorf("Check() = %v", err)
	}
}

func seek(t *testing.T, f Files, _ string) {
	want := content(100_000)
	put(t, f, "a.mp4", want)
	r, err := f.Open(t.Context(), "a.mp4")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := r.Seek(0, io.SeekEnd); n != 100_000 || err != nil {
		t.Errorf("Seek(0, SeekEnd) = %d, %v, want 100000", n, err)
	}
	for _, at := range []int64{0, 50_000, 99_999, 3} {
		if _, err := r.Seek(at, io.SeekStart); err != nil {
			t.Fatalf("Seek(%d) = %v", at, err)
		}
		b := make([]byte, min(10, 100_000-at))
		if _, err := io.ReadFull(r, b); err != nil || !bytes.Equal(b, want[at:at+int64(len(b))]) {
			t.Errorf("reading at %d = %v, %v, want %v", at, b, err, want[at:at+int64(len(b))])
		}
	}
}

// replace checks that a second Put under the same name wins.
func replace(t *testing.T, f Files, _ string) {
	put(t, f, "a.mp4", content(5000))
	put(t, f, "a.mp4", []byte("new"))
	if got := read(t, f, "a.mp4"); string(got) != "new" {
		t.Errorf("after a second Put the file holds %d bytes, want the new ones", len(got))
	}
}

// notThere checks that opening a missing file fails with ErrNotExist and that deleting one
// succeeds.
func notThere(t *testing.T, f Files, _ string) {
	if _, err := f.Open(t.Context(), "none.mp4"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Open of nothing = %v, want ErrNotExist", err)
	}
	if err := f.Delete(t.Context(), "none.mp4"); err != nil {
		t.Errorf("Delete of nothing = %v", err)
	}
}

// failed checks that a Put whose writer fails leaves no file behind.
func failed(t *testing.T, f Files, _ string) {
	broken := errors.New("the renderer broke")
	_, err := f.Put(t.Context(), "a.mp4", func(w io.Writer) error {
		_, _ = w.Write(content(5000)) // it is the next step that fails
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("Put = %v, want the writer's own error", err)
	}
	if _, err := f.Open(t.Context(), "a.mp4"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Open after a failed Put = %v, want ErrNotExist", err)
	}
}

// canceled checks that a Put whose context ends leaves no file behind, even if the writer succeeds.
func canceled(t *testing.T, f Files, _ string) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.Put(ctx, "a.mp4", func(w io.Writer) error {
		cancel()
		_, err := w.Write(content(5000))
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	if _, err := f.Open(t.Context(), "a.mp4"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Open after a canceled Put = %v, want ErrNotExist", err)
	}
}

// deleted checks that Delete removes a complete file, and one that a dead writer left unfinished.
func deleted(t *testing.T, f Files, dir string) {
	put(t, f, "videos/a.mp4", content(10))
	if err := f.Delete(t.Context(), "videos/a.mp4"); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	if _, err := f.Open(t.Context(), "videos/a.mp4"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("Open after Delete = %v, want ErrNotExist", err)
	}
	abandon(t, f, dir, "videos/b.mp4")
	if err := f.Delete(t.Context(), "videos/b.mp4"); err != nil {
		t.Fatalf("Delete of an unfinished file = %v", err)
	}
}

// abandon leaves an unfinished file behind, as a killed writer does, and returns its path.
func abandon(t *testing.T, f Files, dir, name string) (path string) {
	t.Helper()
	_, err := f.Put(t.Context(), name, func(io.Writer) error {
		names := leftovers(t, dir)
		if len(names) != 1 {
			t.Fatalf("while a file is written there are %q, want one", names)
		}
		path = filepath.Join(dir, names[0])
		return errors.New("stop")
	})
	if err == nil {
		t.Fatal("Put of a writer that stops = nil")
	}
	if err := os.WriteFile(path, content(10), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sweep checks that Sweep removes an old unfinished file and spares one that is being written.
func sweep(t *testing.T, f Files, dir string) {
	path := abandon(t, f, dir, "old.mp4")
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	_, err := f.Put(t.Context(), "live.mp4", func(w io.Writer) error {
		if err := f.Sweep(time.Now().Add(-time.Hour)); err != nil {
			t.Errorf("Sweep = %v", err)
		}
		_, err := w.Write([]byte("live"))
		return err
	})
	if err != nil {
		t.Errorf("Put during Sweep = %v", err)
	}
	if got := read(t, f, "live.mp4"); string(got) != "live" {
		t.Errorf("what was being written during Sweep = %q", got)
	}
}

// many checks that several files can be written and read at the same time.
func many(t *testing.T, f Files, _ string) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprintf("videos/%d.mp4", i)
			put(t, f, name, content(10_000+i))
			if got := read(t, f, name); len(got) != 10_000+i {
				t.Errorf("%s holds %d bytes, want %d", name, len(got), 10_000+i)
			}
		})
	}
	wg.Wait()
}

// serve checks that a file can be served by net/http with byte ranges, as the API does.
func serve(t *testing.T, f Files, _ string) {
	want := content(50_000)
	put(t, f, "a.mp4", want)
	r, err := f.Open(t.Context(), "a.mp4")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header.Set("Range", "bytes=100-199")
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "video/mp4")
	http.ServeContent(w, req, "", time.Time{}, r)
	if w.Code != http.StatusPartialContent || !bytes.Equal(w.Body.Bytes(), want[100:200]) || w.Header().Get("Content-Range") != "bytes 100-199/50000" {
		t.Errorf("a range = %d %q with %d bytes, want the 100 asked for", w.Code, w.Header().Get("Content-Range"), w.Body.Len())
	}
}
