package mail

// Waiting is how many messages an outbox holds.
func Waiting(o *Outbox) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting
}
