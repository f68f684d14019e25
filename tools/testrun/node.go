package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// nodeFolder returns the directory of the JavaScript clients and their tests.
func nodeFolder(root string) string { return filepath.Join(root, "oracles", "node") }

// nodePackages installs the packages of oracles/node/package-lock.json and tells the tests
// where node is. Go tests start the JavaScript tests, with a gateway running for them.
func (s *session) nodePackages() {
	node, err := exec.LookPath("node")
	if err == nil {
		err = s.installNodePackages(nodeFolder(s.root))
	}
	if err != nil {
		s.report.failWith("npm ci", err.Error())
		return
	}
	s.env = append(s.env, "SLUICE_TEST_NODE="+node)
}

// installNodePackages runs "npm ci" in dir unless node_modules matches the lock file already.
func (s *session) installNodePackages(dir string) error {
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(lock)
	want := hex.EncodeToString(sum[:])
	// "npm ci" empties node_modules before it starts, so the stamp exists only after a
	// complete install.
	modules := filepath.Join(dir, "node_modules")
	stamp := filepath.Join(modules, ".installed")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return nil
	}
	fmt.Fprintln(s.out, "  running npm ci in oracles/node")
	quiet := s.tell("npm ci")
	out, err := s.command(dir, "npm", "ci", "--no-audit", "--no-fund").CombinedOutput()
	quiet()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	// If the lock file lists no packages, npm creates no node_modules.
	if err := os.MkdirAll(modules, 0o755); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(want), 0o644)
}
