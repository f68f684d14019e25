package jsonscan

// plain is plainPortable with the instructions that every processor of this kind has, which look at 16 bytes at a time.
//
//go:noescape
func plain(b []byte) (n int, stop, high uint64)
