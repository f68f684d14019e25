package runaway

// Kept returns how many prompts are in memory.
func (w *Watch) Kept() (n int) {
	for i := range w.parts {
		p := &w.parts[i].prompts
		n += len(p.recent) + len(p.older)
	}
	return n
}
