package faulttest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFindsBugs builds the code with a fault that nobody handles, and wants the tests to fail.
func TestFindsBugs(t *testing.T) {
	t.Parallel()
	for _, bug := range []struct {
		tag, folder, tests string
		says               string // the failure
		long               bool   // it builds the whole program again
	}{
		{"sluice_skips_sync", "internal/ledger/usage", "TestJournalSyncs", "0 syncs for 3 settlements, want 3", false},
		{"sluice_breaks_settle", "internal/testkit/faulttest", "TestCallers|TestKillAtEveryStep", "is not in the books", true},
	} {
		t.Run(bug.tag, func(t *testing.T) {
			t.Parallel()
			if bug.long && !soaking() {
				t.Skip("soak tests run with make soak")
			}
			run := func(args ...string) string {
				cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-run", "^(" + bug.tests + ")$"}, args...)...)
				cmd.Dir = root
				cmd.Env = append(os.Environ(), "SLUICE_SOAK=", figuresEnv+"=") // the short form finds it
				out, err := cmd.CombinedOutput()
				if err == nil {
					return ""
				}
				return string(out)
			}
			if out := run("-tags", bug.tag, "./"+bug.folder); !strings.Contains(out, bug.says) {
				t.Errorf("the tests of %s with the tag %s = %.2000s, want %q", bug.folder, bug.tag, out, bug.says)
			} else {
				t.Logf("soak: %s is found by %s %s: %q", bug.tag, bug.folder, bug.tests, bug.says)
			}
		})
	}
}
