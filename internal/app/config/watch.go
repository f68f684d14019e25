package config

import (
	"context"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// watchEvery is how often the files are read.
	watchEvery = time.Second
	// settle is how long changed files must stay as they are before they are loaded. Editors and
	// scripts write a file in several steps, and each step can be a valid configuration.
	settle = 3 * time.Second
	// patience is settle for a file that looks unfinished.
	patience = 30 * time.Second
	// retryEvery is how often a configuration that was refused is tried again. What it lacked may be
	// there now, such as a file that it names and the one before did not.
	retryEvery = 10 * time.Second
)

// Watch calls reload when the files of the current configuration have changed and are complete, until
// ctx ends. reload returns an error if it refused them; then it is called again from time to time, and
// after the next change. restored is called if the files are those in force again after a refusal.
//
// It reads the files once a second and compares their content. So it does not matter how they are
// replaced: in place, by renaming, or through links, as orchestrators do. Notifications of the file
// system end with the file that they were asked for, and some file systems have none.
func Watch(ctx context.Context, current func() *Config, reload func() error, restored func()) {
	var w watch
	for range pace.Every(ctx, watchEvery) {
		from := current().from
		now := time.Now()
		switch w.look(from, from.onDisk(), now) {
		case load:
			w.tried = now
			w.refused = reload() != nil
		case restore:
			restored()
		}
	}
}

// watch is what Watch remembers from one look at the files to the next.
type watch struct {
	// seen is what the files held at the last look, and since when.
	seen  digest
	since time.Time
	// refused says that seen was loaded, at tried, and refused.
	refused bool
	tried   time.Time
}

// verdict is what a look at the files leads to.
type verdict int

const (
	wait verdict = iota
	load
	restore
)

// look compares the files, which hold is now, with those of the configuration in force.
func (w *watch) look(from *sources, is digest, now time.Time) verdict {
	if is == from.inForce() {
		refused := w.refused
		*w = watch{}
		if refused {
			return restore
		}
		return wait
	}
	if is != w.seen {
		// A refusal is remembered until the files are loaded or are what they were.
		w.seen, w.since, w.tried = is, now, time.Time{}
		return wait
	}
	still := now.Sub(w.since)
	switch {
	case !w.tried.IsZero():
		if now.Sub(w.tried) < retryEvery {
			return wait
		}
	case still < settle, from.havePipe(), still < patience && from.unfinished():
		return wait
	}
	return load
}
