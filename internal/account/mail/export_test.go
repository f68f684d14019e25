package mail

// Waiting is how many messages an outbox holds.
func Waiting(o *Outbox) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting
}

// ImplicitTLS reports whether a sender speaks TLS from the first byte.
func ImplicitTLS(s *SMTP) bool { return s.implicitTLS }
