package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/kit/datadir"
)

func open(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(path)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestOpenMakesAPrivateFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	d := open(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("the folder has mode %o, want 700", got)
	}
	if d.Path() != path || d.Join("x") != filepath.Join(path, "x") {
		t.Errorf("Path, Join = %s, %s, want %s and below", d.Path(), d.Join("x"), path)
	}
}

func TestPathIsAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // not parallel: the working directory is the process's
	if got, want := open(t, "data").Path(), filepath.Join(dir, "data"); got != want {
		t.Errorf("Open(data).Path() = %s, want %s", got, want)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	first := open(t, path)
	_, err := datadir.Open(path)
	if !errors.Is(err, datadir.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("Open of a held folder = %v, want ErrLocked naming the folder", err)
	}
	if err := first.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	// The lock file stays behind, but does not count as a lock.
	if _, err := os.Stat(filepath.Join(path, "lock")); err != nil {
		t.Errorf("the lock's file: %v, want it to stay", err)
	}
	open(t, path)
}

func TestHold(t *testing.T) {
	t.Parallel()
	path := private(t)
	if release, err := datadir.Hold(path); err != nil || release() != nil {
		t.Errorf("Hold of a folder without a lock file = %v, want nil", err)
	}
	if files, err := os.ReadDir(path); err != nil || len(files) > 0 {
		t.Errorf("Hold left %v, %v, want nothing", files, err)
	}
	d := open(t, path)
	if _, err := datadir.Hold(path); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("Hold of a held folder = %v, want ErrLocked", err)
	}
	d.Close()
	release, err := datadir.Hold(path)
	if err != nil {
		t.Fatalf("Hold = %v", err)
	}
	if _, err := datadir.Open(path); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("Open of a folder that is held = %v, want ErrLocked", err)
	}
	if err := release(); err != nil {
		t.Errorf("release = %v", err)
	}
	open(t, path)
}

func TestLeftoverFile(t *testing.T) {
	t.Parallel()
	path := private(t)
	if err := os.WriteFile(filepath.Join(path, "lock"), []byte("4711\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestOpenNeedsAFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Open(file); err == nil || errors.Is(err, datadir.ErrLocked) {
		t.Errorf("Open of a file = %v, want an error other than ErrLocked", err)
	}
}

// private is an empty folder that only this user can read.
func private(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
