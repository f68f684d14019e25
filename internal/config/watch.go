package config

import (
	"context"
	"os"
	"time"
)

const watchEvery = time.Second

// Stamp is the state of the files that a configuration depends on: its own file, the certificate and its key. Two
// stamps are equal as long as nothing has changed.
type Stamp [3]fileState

type fileState struct {
	path    string
	changed time.Time
	size    int64
}

// Stamp reads the state of the files. A file that is missing has the zero state.
func (c *Config) Stamp() (state Stamp) {
	for i, path := range []string{c.File(), c.TLS.Cert, c.TLS.Key} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			state[i] = fileState{path: path, changed: info.ModTime(), size: info.Size()}
		}
	}
	return state
}

// Watch calls reload when the files of the current configuration differ from seen, until ctx ends. It reads their
// state once a second: that also notices files that are replaced through links, as orchestrators do.
func Watch(ctx context.Context, seen Stamp, current func() *Config, reload func()) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := current().Stamp(); now != seen {
			reload()
			seen = now // a bad file is reported once, not every second
		}
	}
}
