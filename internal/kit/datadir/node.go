package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// nodeFile holds the name of the node.
const nodeFile = "node"

// Node returns the name of this folder among all that share a database, and makes one up the first time. The
// folder's lock makes sure that no other living process uses the same name.
func (d *Dir) Node() (string, error) {
	path := d.Join(nodeFile)
	raw, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(raw)); err == nil && name != "" {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the name of this node: %w", err)
	}
	name := strings.ToLower(rand.Text())
	if err := os.WriteFile(path+".new", []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("name this node: %w", err)
	}
	return name, os.Rename(path+".new", path)
}
