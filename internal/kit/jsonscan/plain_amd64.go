package jsonscan

// look is lookPortable with the instructions that every processor of this kind has, which look at 16 bytes at a time.
//
//go:noescape
func look(b []byte, m *marks) (n int)

// spell is spellPortable with these instructions.
//
//go:noescape
func spell(block *[64]byte, m *marks)
