package httpserver

// A server that cannot serve calls must not be sent any. A load balancer that asks /readyz sends none. One that only
// watches connections, such as nginx, sends a POST to another server if it could not connect, and at no other time:
// what has reached a server may have been charged. So Withdraw makes the system refuse connections, as if nobody
// listened, and Return undoes it. The socket keeps its port meanwhile.

// Withdraw makes the system refuse new connections until Return, and ends idle ones. Connections that the system has
// accepted already are served. It reports false if this system cannot do it, or the listener is finished or withdrawn.
func (s *Server) Withdraw() bool {
	l := s.Listener
	l.mu.Lock()
	if l.finished || l.away != nil {
		l.mu.Unlock()
		return false
	}
	late, ok := withdraw(l.Listener)
	if ok {
		l.away, l.late = make(chan struct{}), append(l.late, late...)
	}
	l.mu.Unlock()
	if ok {
		// A proxy would send its next request on them. One that is on its way just now is lost; that is better than
		// a refusal for each connection.
		s.closeIdle(true)
	}
	return ok
}

// Return accepts connections again after Withdraw.
func (s *Server) Return() error {
	l := s.Listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == nil {
		return nil
	}
	if err := relisten(l.Listener); err != nil {
		return err
	}
	s.closeIdle(false)
	l.turns.Add(1)
	l.wake()
	return nil
}

// wake lets Accept continue after Withdraw. The caller holds mu.
func (l *Listener) wake() {
	if l.away != nil {
		close(l.away)
		l.away = nil
	}
}

// closeIdle closes idle connections and makes every reply end its connection, until it is called with false.
func (s *Server) closeIdle(on bool) {
	s.std.SetKeepAlivesEnabled(!on)
	if s.lane != nil {
		s.lane.EndConnections(on)
	}
}
