package sqlstore_test

import (
	"bytes"
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// engines runs a test on both databases. The function it gets opens the same one each time.
func engines(t *testing.T, test func(t *testing.T, again func() *alltest.Store)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		test(t, func() *alltest.Store { return open(t, "sqlite", dir) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, func() *alltest.Store { return open(t, url, "") })
	})
}

func newAccount(t *testing.T, s *alltest.Store, email string) string {
	t.Helper()
	a, _, err := account.New(s, nil).Create(t.Context(), "test", email, account.Free, false)
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}

const (
	first  = "the first secret, which is long enough"
	second = "the second secret, which is long enough"
	factor = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
)

func TestUnlock(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, again func() *alltest.Store) {
		s := again()
		if err := s.Unlock(t.Context()); !errors.Is(err, sqlstore.ErrWrongSecret) {
			t.Errorf("Unlock without a secret = %v, want ErrWrongSecret", err)
		}
		if sealed, err := s.Sealed(t.Context()); sealed != nil || err != nil {
			t.Errorf("Sealed of a new database = %x, %v, want nothing", sealed, err)
		}
		unlock := func(secrets ...string) (*alltest.Store, error) {
			s := again()
			return s, s.Unlock(t.Context(), secrets...)
		}
		one, err := unlock(first)
		if err != nil {
			t.Fatalf("Unlock = %v", err)
		}
		if _, err := unlock(second); !errors.Is(err, sqlstore.ErrWrongSecret) {
			t.Errorf("Unlock with another secret = %v, want ErrWrongSecret", err)
		}
		two, err := unlock(first)
		if err != nil || !bytes.Equal(one.Key().Bytes(), two.Key().Bytes()) {
			t.Errorf("Unlock on another node: %v, and the same key: %t", err, bytes.Equal(one.Key().Bytes(), two.Key().Bytes()))
		}
		// A new secret, given before the old one, replaces it.
		three, err := unlock(second, first)
		if err != nil || !bytes.Equal(one.Key().Bytes(), three.Key().Bytes()) {
			t.Errorf("Unlock with a new secret beside the old one: %v, want the same key", err)
		}
		if _, err := unlock(first); !errors.Is(err, sqlstore.ErrWrongSecret) {
			t.Errorf("Unlock with the replaced secret = %v, want ErrWrongSecret", err)
		}
		if _, err := unlock(second); err != nil {
			t.Errorf("Unlock with the new secret = %v", err)
		}
		sealed, err := s.Sealed(t.Context())
		if err != nil || !sqlstore.Opens(sealed, second) || sqlstore.Opens(sealed, first) {
			t.Errorf("Opens: %v; want the new secret to open the key, and the old one not", err)
		}
	})
}

// TestSealsWhatWasClear simulates the first start of a new version on an old database, interrupted
// halfway.
func TestSealsWhatWasClear(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, again func() *alltest.Store) {
		old := again()
		var ids []string
		for i := range 450 { // more than two transactions' worth
			id := newAccount(t, old, fmt.Sprintf("a%d@example.com", i))
			if err := old.SetTOTP(t.Context(), id, secretOf(i), true); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		without := newAccount(t, old, "none@example.com")
		if err := old.SetPassword(t.Context(), without, "hash", ""); err != nil {
			t.Fatal(err)
		}
		link, err := old.Secret(t.Context(), "video links", []byte("the key that links are signed by"))
		if err != nil {
			t.Fatal(err)
		}
		if n := clearRows(t, old); n != len(ids)+1 {
			t.Fatalf("%d values are in the clear before, want %d: the test tests nothing", n, len(ids)+1)
		}
		s := again()
		if err := s.Unlock(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if n := clearRows(t, s); n != 0 {
			t.Errorf("%d values are in the clear after Unlock, want 0", n)
		}
		for range 2 { // and a second start finds nothing to do
			for i, id := range ids {
				if l, err := s.FindLogin(t.Context(), id); err != nil || l.TOTPSecret != secretOf(i) || !l.TOTPOn {
					t.Fatalf("FindLogin(%d) = %+v, %v, want its own secret", i, l, err)
				}
			}
			if l, err := s.FindLogin(t.Context(), without); err != nil || l.TOTPSecret != "" || l.TOTPOn {
				t.Errorf("FindLogin without a second factor = %+v, %v", l, err)
			}
			if got, err := s.Secret(t.Context(), "video links", []byte("another")); err != nil || !bytes.Equal(got, link) {
				t.Errorf("Secret = %q, %v, want the old one", got, err)
			}
			s = again()
			if err := s.Unlock(t.Context(), first); err != nil {
				t.Fatal(err)
			}
		}
		// A store that was not unlocked cannot read them.
		locked := again()
		if l, err := locked.FindLogin(t.Context(), ids[0]); err == nil {
			t.Errorf("FindLogin without the key = %+v, want an error", l)
		}
		// Nor does a sealed value open in another account.
		if err := sqlstore.Execute(s.Kernel(), fmt.Sprintf(`UPDATE logins SET totp_secret = (SELECT totp_secret FROM logins WHERE account_id = '%s') WHERE account_id = '%s'`, ids[0], ids[1])); err != nil {
			t.Fatal(err)
		}
		if l, err := s.FindLogin(t.Context(), ids[1]); err == nil {
			t.Errorf("FindLogin of a secret moved from another account = %+v, want an error", l)
		}
	})
}

func secretOf(i int) string {
	return base32.StdEncoding.EncodeToString(fmt.Appendf(nil, "second factor %06d", i))
}

func clearRows(t *testing.T, s *alltest.Store) int {
	t.Helper()
	n, err := sqlstore.ClearSecrets(context.Background(), s.Kernel())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNothingClearOnDisk reads the files: overwritten values must be gone from them, too.
func TestNothingClearOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := open(t, "sqlite", dir)
	id := newAccount(t, old, "a@example.com")
	if err := old.SetTOTP(t.Context(), id, factor, true); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Secret(t.Context(), "video links", []byte("the key that links are signed by")); err != nil {
		t.Fatal(err)
	}
	old.Close()
	find := func() (places []string) {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{factor, "links are signed"} {
				if bytes.Contains(raw, []byte(secret)) {
					places = append(places, filepath.Base(name)+": "+secret)
				}
			}
		}
		return places
	}
	if len(find()) != 2 {
		t.Fatalf("before: %v, want both secrets in the clear", find())
	}
	s := open(t, "sqlite", dir)
	if err := s.Unlock(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if places := find(); len(places) > 0 {
		t.Errorf("still in the clear: %s", strings.Join(places, ", "))
	}
}

func TestForgetSealed(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, again func() *alltest.Store) {
		s := again()
		if err := s.Unlock(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		with, without := newAccount(t, s, "with@example.com"), newAccount(t, s, "without@example.com")
		if err := s.SetPassword(t.Context(), without, "hash", ""); err != nil {
			t.Fatal(err)
		}
		if err := s.SetTOTP(t.Context(), with, factor, true); err != nil {
			t.Fatal(err)
		}
		link, err := s.Secret(t.Context(), "video links", []byte("one"))
		if err != nil {
			t.Fatal(err)
		}
		lost := again() // and nobody has the secret
		if n, err := lost.ForgetSealed(t.Context()); n != 1 || err != nil {
			t.Errorf("ForgetSealed = %d, %v, want 1 account", n, err)
		}
		if err := lost.Unlock(t.Context(), second); err != nil {
			t.Fatalf("Unlock with a new secret = %v", err)
		}
		if l, err := lost.FindLogin(t.Context(), with); err != nil || l.TOTPOn || l.TOTPSecret != "" {
			t.Errorf("FindLogin = %+v, %v, want no second factor", l, err)
		}
		if got, err := lost.Secret(t.Context(), "video links", []byte("two")); err != nil || bytes.Equal(got, link) {
			t.Errorf("Secret = %q, %v, want a new one", got, err)
		}
	})
}

// The modes are set whatever the umask is; tests run under the usual one.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "sqlite", dir)
	newAccount(t, s, "a@example.com") // so that there is a log
	copied := filepath.Join(dir, "copy")
	if err := s.Snapshot(t.Context(), copied, "", nil); err != nil {
		t.Fatal(err)
	}
	restored := t.TempDir()
	if err := sqlstore.Restore(t.Context(), copied, restored); err != nil {
		t.Fatal(err)
	}
	open(t, "sqlite", restored)
	seen := 0
	for _, folder := range []string{dir, restored} {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			seen++
			if got := info.Mode().Perm(); got != 0o600 {
				t.Errorf("%s has mode %o, want 600", f.Name(), got)
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d files were looked at, want the database, its log and index, the backup and the restored one", seen)
	}
}

// Without the secret of the installation, receipts are not signed, and above all no key for them is made: it would be stored in
// the clear.
func TestReceiptsNeedTheSecret(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, again func() *alltest.Store) {
		for sealed := range 2 { // without a key, and with a sealed one
			if err := again().Ring().Open(t.Context()); err == nil || !strings.Contains(err.Error(), "set SLUICE_SECRET") {
				t.Errorf("Open of a database that is locked = %v, want what to do", err)
			}
			s := again()
			if err := s.Unlock(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			if all, err := s.ReceiptKeys(t.Context()); err != nil || len(all) != sealed {
				t.Errorf("%d keys, %v; want %d, which was made with the secret", len(all), err, sealed)
			}
			if err := s.Ring().Open(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
