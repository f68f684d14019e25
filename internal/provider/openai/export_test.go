package openai

// Drained waits until no stream's last bytes are awaited any more.
func (a *Adapter) Drained() { a.drains.Wait() }

const (
	MaxReply = maxReply
	MaxEvent = maxEvent
	Silence  = silence
)
