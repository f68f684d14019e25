//go:build !unix

package plainhttp

// tryRead is never called: there are no descriptors.
func (in *reader) tryRead(uintptr) bool { return true }
