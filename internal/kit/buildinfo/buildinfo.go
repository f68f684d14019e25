// Package buildinfo reports which version of Sluice this is.
//
// The version is a constant, so that a build from a fresh clone needs no flags. The commit is
// added if the Go tool recorded one.
package buildinfo

import "runtime/debug"

// Version is the version of this source: released, or the next to be released.
const Version = "0.2.0"

// commit is set by the linker in releases, which are built without the version control of the Go tool: its
// notes would differ between a clone and an archive of the same source.
var commit string

// Commit returns the first 12 characters of the source revision, or "" if the build did not
// record it.
func Commit() string {
	if commit != "" {
		return commit[:min(12, len(commit))]
	}
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
