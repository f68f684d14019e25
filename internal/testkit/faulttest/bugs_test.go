package faulttest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// overlay returns the name of a file that makes the go command read a text in the place of a source file.
func overlay(t *testing.T, file, text string) string {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	changed, name := filepath.Join(t.TempDir(), filepath.Base(file)), filepath.Join(t.TempDir(), "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{changed: []byte(text), name: list} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// TestFindsBugs builds the code with a fault that nobody handles, and wants the tests to fail.
func TestFindsBugs(t *testing.T) {
	t.Parallel()
	for name, bug := range map[string]struct {
		file, old, new string // what is broken, and how
		folder, tests  string
		says           string // the failure
		long           bool   // it builds the whole program again
	}{
		"no fsync of the journal": {
			"internal/ledger/usage/sync.go", "err := j.opts.Sync(active.file)", "err := error(nil)",
			"internal/ledger/usage", "TestJournalSyncs", "0 syncs for 3 settlements, want 3", false,
		},
		"one settlement in three is lost": {
			"internal/ledger/admission/admission.go", "\tl.gate.accounts.Record(s)\n", "\tif time.Now().UnixMicro()%3 != 0 {\n\t\tl.gate.accounts.Record(s)\n\t}\n",
			"internal/testkit/faulttest", "TestCallers|TestKillAtEveryStep", "is not in the books", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if bug.long && !soaking() {
				t.Skip("soak tests run with make soak")
			}
			file := filepath.Join(root, bug.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), bug.old); n != 1 {
				t.Fatalf("%s has %q %d times, want it once", bug.file, bug.old, n)
			}
			with := overlay(t, file, strings.Replace(string(text), bug.old, bug.new, 1))
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-overlay", with, "-run", "^("+bug.tests+")$", "./"+bug.folder)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "SLUICE_SOAK=", figuresEnv+"=") // the short form finds it
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), bug.says) {
				t.Errorf("the tests of %s with a bug: %v, %.2000s, want %q", bug.folder, err, out, bug.says)
			} else {
				t.Logf("soak: %s: found by %s %s: %q", name, bug.folder, bug.tests, bug.says)
			}
		})
	}
}
