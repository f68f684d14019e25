//go:build !amd64

package jsonscan

func look(b []byte, m *marks) (n int) { return lookPortable(b, m) }

func spell(block *[64]byte, m *marks) { spellPortable(block, m) }
