package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// nodeFolder is where the JavaScript clients and their tests live. They are real clients of other
// people, which the gateway must work with.
func nodeFolder(root string) string { return filepath.Join(root, "oracles", "node") }

// nodePackages installs what oracles/node/package-lock.json names and tells the tests where node is.
// Go tests start the JavaScript tests, because they have a gateway running for them.
func (s *session) nodePackages() {
	node, err := exec.LookPath("node")
	if err == nil {
		err = s.installNodePackages(nodeFolder(s.root), "ci")
	}
	if err != nil {
		s.report.failWith("npm ci", err.Error())
		return
	}
	s.env = append(s.env, "SLUICE_TEST_NODE="+node)
}

// agentPackages installs the coding agents that oracles/agents/package-lock.json names, and tells the tests
// where they are. They come from six makers and take more than a gigabyte. So only a soak installs them, and
// goes on without them.
func (s *session) agentPackages() {
	dir := filepath.Join(s.root, "oracles", "agents")
	// Not ci, which refuses a lock file without the programs for other platforms: gigabytes that nobody needs here.
	if err := s.installNodePackages(dir, "install", "--no-save"); err != nil {
		s.report.skip("agents, for the tests with coding agents", err.Error())
		return
	}
	s.env = append(s.env, "SLUICE_TEST_AGENTS="+dir)
}

// installNodePackages runs npm with args in dir unless node_modules is what the lock file wants already: npm ci
// deletes and installs everything again, which most runs can save.
func (s *session) installNodePackages(dir string, args ...string) error {
	if nodePackagesInstalled(dir) {
		return nil
	}
	if !s.mayInstall() {
		return fmt.Errorf("the packages of oracles/%s are not installed, because %s=no", filepath.Base(dir), installVar)
	}
	fmt.Fprintf(s.out, "  running npm %s in oracles/%s, which installs packages in that folder alone (not with %s=no)\n", args[0], filepath.Base(dir), installVar)
	quiet := s.tell("npm " + args[0])
	out, err := s.command(dir, "npm", append(args, "--no-audit", "--no-fund")...).CombinedOutput()
	quiet()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	stamp, want, err := nodeStamp(dir)
	if err != nil {
		return err
	}
	// npm creates no node_modules if the lock file names no package.
	if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(want), 0o644)
}

// nodePackagesInstalled reports whether the last complete npm ci in dir was for its lock file. One that
// somebody ran by hand left no stamp; then npm's own list of what it installed must not be older than
// the lock file.
func nodePackagesInstalled(dir string) bool {
	stamp, want, err := nodeStamp(dir)
	if err != nil {
		return false
	}
	if have, err := os.ReadFile(stamp); err == nil {
		return string(have) == want
	}
	lock, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return false
	}
	list, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	return err == nil && !list.ModTime().Before(lock.ModTime())
}

// nodeStamp returns the file that marks a complete install in dir, and what it must hold: the hash of
// the lock file. npm ci empties node_modules before it starts, so the stamp does not outlive it.
func nodeStamp(dir string) (stamp, want string, err error) {
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(lock)
	return filepath.Join(dir, "node_modules", ".installed"), hex.EncodeToString(sum[:]), nil
}
