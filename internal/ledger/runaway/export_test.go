package runaway

// The bounds of what is counted.
const (
	MostPrompts = mostPrompts
	MostThreads = mostThreads
	MostKeys    = mostKeys
	MostSeen    = mostSeen
)

// Kept returns how many prompts, conversations and keys are in memory.
func (w *Watch) Kept() (prompts, threads, keys int) {
	for i := range w.parts {
		p := &w.parts[i]
		prompts += len(p.prompts.recent) + len(p.prompts.older)
		threads += len(p.threads.recent) + len(p.threads.older)
		keys += len(p.keys.recent) + len(p.keys.older)
	}
	return prompts, threads, keys
}

// Waiting returns how much waits for Look.
func (w *Watch) Waiting() int { return len(w.seen) }
