//go:build unix

package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/kit/datadir"
)

func write(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte("what is kept in here is nobody else's business\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestExposedFolder looks at mode bits and not at what can be read: root can read everything.
func TestExposedFolder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		folder os.FileMode
		file   os.FileMode // of a database in it; 0: it is empty
		opens  bool
	}{
		{"private", 0o700, 0o600, true},
		{"empty and made by hand", 0o755, 0, true},
		{"empty and open to everybody", 0o777, 0, true},
		{"empty and meant to be shared", 0o777 | os.ModeSticky, 0, false},
		{"empty, with the group's mark", 0o770 | os.ModeSetgid, 0, false},
		{"others may read it", 0o755, 0o600, false},
		{"others may enter it", 0o711, 0o600, false},
		{"the group may read it", 0o750, 0o600, false},
		{"others may write to it", 0o702, 0o600, false},
		{"left by an older version", 0o700, 0o644, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := private(t)
			database := filepath.Join(path, "sluice.db")
			if tt.file != 0 {
				write(t, database, tt.file)
				write(t, database+"-wal", tt.file)
			}
			if err := os.Chmod(path, tt.folder); err != nil {
				t.Fatal(err)
			}
			d, err := datadir.Open(path)
			if !tt.opens {
				if !errors.Is(err, datadir.ErrExposed) || !strings.Contains(err.Error(), "chmod -R go-rwx "+path) {
					t.Errorf("Open = %v, want ErrExposed and what to type", err)
				}
				if got := mode(t, path); got != tt.folder.Perm() {
					t.Errorf("the refused folder has mode %o, want it untouched", got)
				}
				return
			}
			if err != nil {
				t.Fatalf("Open = %v", err)
			}
			defer d.Close()
			if got := mode(t, path); got != 0o700 {
				t.Errorf("the folder has mode %o, want 700", got)
			}
			for _, name := range []string{database, database + "-wal"} {
				if tt.file != 0 && mode(t, name) != 0o600 {
					t.Errorf("%s has mode %o, want 600", filepath.Base(name), mode(t, name))
				}
			}
		})
	}
}

// What a link leads to lies outside of the private folder.
func TestLinks(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	path := private(t)
	write(t, filepath.Join(outside, "db"), 0o644)
	if err := os.Symlink(filepath.Join(outside, "db"), filepath.Join(path, "sluice.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Open(path); !errors.Is(err, datadir.ErrExposed) {
		t.Errorf("Open with a link to a readable database = %v, want ErrExposed", err)
	}
	if got := mode(t, filepath.Join(outside, "db")); got != 0o644 {
		t.Errorf("the file behind the link has mode %o, want it untouched", got)
	}
	if err := os.Chmod(filepath.Join(outside, "db"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(outside, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	open(t, link)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Open(link); !errors.Is(err, datadir.ErrExposed) {
		t.Errorf("Open of a link to a readable folder = %v, want ErrExposed", err)
	}
}

func TestSecretFile(t *testing.T) {
	t.Parallel()
	d := open(t, private(t))
	if got, err := datadir.Secret(d.Path()); got != "" || err != nil {
		t.Fatalf("Secret of a new folder = %q, %v, want none", got, err)
	}
	made, err := d.CreateSecret()
	if err != nil || len(made) != 64 {
		t.Fatalf("CreateSecret = %q, %v, want 32 bytes in hexadecimal", made, err)
	}
	name := d.Join(datadir.SecretFile)
	if got := mode(t, name); got != 0o600 {
		t.Errorf("the key file has mode %o, want 600", got)
	}
	if got, err := datadir.Secret(d.Path()); got != made || err != nil {
		t.Errorf("Secret = %q, %v, want the one that was made", got, err)
	}
	if _, err := d.CreateSecret(); err == nil {
		t.Error("CreateSecret beside a key file = nil, want an error")
	}
	if got, _ := datadir.Secret(d.Path()); got != made {
		t.Error("the second CreateSecret replaced the key file")
	}
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Secret(d.Path()); !errors.Is(err, datadir.ErrExposed) {
		t.Errorf("Secret of a readable key file = %v, want ErrExposed", err)
	}
	write(t, name, 0o600)
	if err := os.WriteFile(name, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Secret(d.Path()); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("Secret of a damaged key file = %v, want an error that does not show it", err)
	}
}
