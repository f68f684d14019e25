package config

import (
	"strings"
	"sync/atomic"
)

// OnDisk is how the configuration on disk differs from the one in force. The zero value says that it does not. It is
// safe for concurrent use.
type OnDisk struct {
	refused atomic.Pointer[string]   // why it is not in force; nil: it is
	waiting atomic.Pointer[[]string] // its settings that wait for a restart; nil before the first reload
}

// Refuse notes that the configuration was refused, and reports whether that is news: what was refused is tried again
// until it is accepted.
func (d *OnDisk) Refuse(err error) (news bool) {
	problem := err.Error()
	was := d.refused.Swap(&problem)
	return was == nil || *was != problem
}

// Accept notes that the configuration is in force, and reports whether it was refused before.
func (d *OnDisk) Accept() (wasRefused bool) { return d.refused.Swap(nil) != nil }

// Wait notes which settings wait for a restart. It keeps the list.
func (d *OnDisk) Wait(paths []string) { d.waiting.Store(&paths) }

// Refused returns why the configuration is not in force; empty if it is.
func (d *OnDisk) Refused() string {
	if why := d.refused.Load(); why != nil {
		return *why
	}
	return ""
}

// Waiting returns the settings that wait for a restart.
func (d *OnDisk) Waiting() []string {
	if paths := d.waiting.Load(); paths != nil {
		return *paths
	}
	return nil
}

// Note returns a remark for /readyz, or "". It does not say why a configuration was refused: that may quote names that
// are not for everybody. The log has the reason.
func (d *OnDisk) Note() string {
	if d.refused.Load() != nil {
		return "the configuration on disk was refused, and an older one is in force; the log says more"
	}
	if paths := d.Waiting(); len(paths) > 0 {
		return "these settings were changed and wait for a restart: " + strings.Join(paths, ", ")
	}
	return ""
}
