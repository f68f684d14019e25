// Package buildinfo says which Sluice this is.
//
// The version is a constant, so that a build from a fresh clone needs no flags; the commit is added
// where the Go tool recorded one.
package buildinfo

import "runtime/debug"

// Version is the released version that this source is, or leads to.
const Version = "0.1.0"

// Commit is the source revision, shortened, or empty where the build did not record it.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}
