package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// noteFile is what tells the folder of a demonstration from that of an installation.
const noteFile = "demonstration.json"

// note is what a demonstration keeps about itself. Its secrets open nothing but the demonstration.
type note struct {
	About    string            `json:"about"`
	Seed     uint64            `json:"seed"`
	Upstream string            `json:"upstream_key"` // of the gateway that plays the vendors
	Password string            `json:"password"`     // of everybody
	Code     string            `json:"code_secret"`  // of the member of staff
	Keys     map[string]string `json:"keys"`         // by account and name
	Written  bool              `json:"written"`      // the history is complete
}

const about = "This folder holds a demonstration of Sluice: a made-up company with made-up calls. It is no installation, and can be deleted."

// claim makes dir the folder of a demonstration and returns its note. It refuses a folder that holds anything else, and
// one whose history was not written to its end.
func claim(dir string, seed uint64) (*note, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the demonstration: %w", err)
	}
	n := &note{About: about, Seed: seed, Keys: map[string]string{}}
	text, err := os.ReadFile(filepath.Join(dir, noteFile))
	switch {
	case err == nil:
		if err := json.Unmarshal(text, n); err != nil || !n.Written {
			return nil, fmt.Errorf("%s holds a demonstration that was never finished; delete the folder, or name another one", dir)
		}
		return n, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the folder of the demonstration: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of the demonstration: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty, and a demonstration must not touch what is there; name a new folder with --data", dir)
	}
	// An empty folder may be open to others; a data folder is not.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the demonstration private: %w", err)
	}
	return n, n.write(dir)
}

// write stores the note.
func (n *note) write(dir string) error {
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, noteFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the note of the demonstration: %w", err)
	}
	return nil
}
