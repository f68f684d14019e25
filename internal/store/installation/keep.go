package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// dated is how the backups of a folder of backups are called, in UTC. Their names sort by time.
	dated = "sluice-20060102T150405Z"
	// abandoned is how old a backup is that is still being written and never will be finished.
	abandoned = 24 * time.Hour
)

// DatedName returns the name of a backup in a folder of backups that Prune looks after.
func DatedName(at time.Time) string { return at.UTC().Format(dated) }

// Prune deletes all but the newest backups of a folder, and those that were interrupted long ago. It touches nothing
// that does not have a name of DatedName, and returns the names of what it has deleted. keep must be at least 1.
func Prune(folder string, keep int, now time.Time) (deleted []string, err error) {
	if keep < 1 {
		return nil, errors.New("at least one backup must be kept")
	}
	entries, err := os.ReadDir(folder) // sorted by name, so by time
	if err != nil {
		return nil, fmt.Errorf("delete old backups: %w", err)
	}
	var whole, doomed []string
	for _, e := range entries {
		name, unfinished := strings.CutSuffix(e.Name(), partial)
		at, err := time.Parse(dated, name)
		switch {
		case err != nil || !e.IsDir():
		case unfinished && now.Sub(at) > abandoned:
			doomed = append(doomed, e.Name())
		case !unfinished && isBackup(filepath.Join(folder, name)):
			whole = append(whole, name)
		}
	}
	doomed = append(doomed, whole[:max(0, len(whole)-keep)]...)
	for _, name := range doomed {
		// Renamed first: what is only half deleted must not look like a backup.
		path := filepath.Join(folder, name)
		if !strings.HasSuffix(name, partial) {
			if err := os.Rename(path, path+partial); err != nil {
				return deleted, fmt.Errorf("delete old backups: %w", err)
			}
			path += partial
		}
		if err := os.RemoveAll(path); err != nil {
			return deleted, fmt.Errorf("delete old backups: %w", err)
		}
		deleted = append(deleted, name)
	}
	return deleted, nil
}

// isBackup reports whether a folder is a backup.
func isBackup(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, manifestFile))
	return !errors.Is(err, fs.ErrNotExist)
}
