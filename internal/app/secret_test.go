package app_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/kit/datadir"
	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
)

// try starts a server on the site and stops it again.
func (s *site) try(t *testing.T) error {
	t.Helper()
	n, err := s.launch(t, s.config(t))
	if err != nil {
		return err
	}
	n.stop()
	return nil
}

// TestSecretIsReplaced goes from the key file to a configured secret, to another one, and back.
func TestSecretIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	file := filepath.Join(s.data(), datadir.SecretFile)
	if err := s.try(t); err != nil {
		t.Fatal(err)
	}
	made, err := datadir.Secret(s.data())
	if err != nil || made == "" {
		t.Fatalf("Secret after the first start = %q, %v, want one", made, err)
	}
	const one, two = "the-first-configured-secret-of-this-test", "the-second-configured-secret-of-this-test"
	for _, step := range []struct {
		name, configured, file string
		refused                string
	}{
		{"the same file", "", made, ""},
		{"no file", "", "", "there is none: SLUICE_SECRET is not set"},
		{"another file", "", two, "under another secret than the one in " + s.data()},
		{"a configured one alone", one, "", "under another secret than the one in SLUICE_SECRET"},
		{"a configured one beside the file", one, made, ""},
		{"the replaced file", "", made, "under another secret"},
		{"the configured one alone", one, "", ""},
		{"a second one beside the first", two, one, ""},
		{"the second alone", two, "", ""},
		{"the second in the file", "", two, ""},
	} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if step.file != "" {
			replace(t, file, step.file+"\n")
		}
		yaml := ""
		if step.configured != "" {
			yaml = "secret: " + step.configured + "\n"
		}
		s.write(t, yaml)
		err := s.try(t)
		if step.refused == "" && err != nil {
			t.Fatalf("%s: New = %v", step.name, err)
		}
		if step.refused != "" && (err == nil || !strings.Contains(err.Error(), step.refused) || !strings.Contains(err.Error(), "reset-secret")) {
			t.Fatalf("%s: New = %v, want an error about %q with a way out", step.name, err, step.refused)
		}
		if err != nil && (strings.Contains(err.Error(), one) || strings.Contains(err.Error(), two) || strings.Contains(err.Error(), made)) {
			t.Errorf("%s: the error shows a secret: %v", step.name, err)
		}
		if _, statErr := os.Stat(file); step.file == "" && statErr == nil {
			t.Errorf("%s: a start on a sealed database made a key file", step.name)
		}
	}
}

// A second node must not make a secret of its own.
func TestSecretOfTwoNodes(t *testing.T) {
	t.Parallel()
	yaml := "database: " + pgtest.URL(t) + "\ncluster: approximate\n"
	one, two := newSite(t, yaml), newSite(t, yaml)
	first := one.start(t)
	if !strings.Contains(first.log.String(), "other nodes on this database need the same") {
		t.Error("the log does not say that other nodes need the same secret")
	}
	if _, err := two.launch(t, two.config(t)); err == nil || !strings.Contains(err.Error(), "SLUICE_SECRET is not set") {
		t.Fatalf("New of a second node without the secret = %v, want an error that names SLUICE_SECRET", err)
	}
	secret, err := datadir.Secret(one.data())
	if err != nil {
		t.Fatal(err)
	}
	two.write(t, yaml+"secret: "+secret+"\n")
	second := two.start(t)
	if status := must[admin.Status](second, "status", admin.Empty{}); status.Database != "PostgreSQL" {
		t.Errorf("status = %+v, want a node on PostgreSQL", status)
	}
}

// What is in the data folder after a start: nothing that others may read, and no secret in the clear.
func TestNothingInTheOpen(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	err := filepath.WalkDir(s.data(), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o, want nothing for others", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	n.stop()
	db, err := sql.Open("sqlite", filepath.Join(s.data(), "sluice.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT name, value FROM secrets`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var name string
		var value []byte
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		if seen++; name != "data key" && !strings.HasPrefix(string(value), "sealed:") {
			t.Errorf("the secret %q is in the clear", name)
		}
	}
	if err := rows.Err(); err != nil || seen < 2 {
		t.Errorf("%d secrets were looked at (%v), want the data key and the key of links", seen, err)
	}
}
