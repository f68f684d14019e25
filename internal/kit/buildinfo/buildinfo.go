// Package buildinfo reports which version of Sluice this is.
//
// Release is the one place that names the version of the source. Files that must repeat it, such as manifests, are
// compared with it by a test. Only a build of a release calls itself that; any other build is a development build.
package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// Release is the version of this source: released, or the next to be released.
const Release = "0.3.0"

// version, commit and date are set by the linker in releases, which are built without the version control of the Go tool:
// its notes would differ between a clone and an archive of the same source.
var version, commit, date string

// Version returns what this program calls itself: Release in a release, which "make release" builds, and "make build" on a
// commit with its tag.
func Version() string { return cmp.Or(version, Release+"-dev") }

// Commit returns the first 12 characters of the source revision, or "" if the build did not
// record it.
func Commit() string {
	c := cmp.Or(commit, recorded("vcs.revision"))
	return c[:min(12, len(c))]
}

// Date returns when the source revision was made, as RFC 3339 writes it, or "" if the build did not record it. It is not
// the time of the build: two builds of one revision are the same.
func Date() string { return cmp.Or(date, recorded("vcs.time")) }

// recorded returns what the Go tool has written into the binary about the source, or "".
func recorded(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
