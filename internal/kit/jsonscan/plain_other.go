//go:build !amd64

package jsonscan

func plain(b []byte) (n int, stop, high uint64) { return plainPortable(b) }
