package routing

const (
	// queued is how many running calls a waiting one counts as. A server with a queue is full: what is sent there waits for
	// all that are in it, and then runs beside them.
	queued = 3
	// tight is the share of a cache in use from which on it counts. A server without room for another conversation drops
	// what it has of others, or lets calls wait that it had begun.
	tight = 0.9
	// steady is the weight of the calls before, in the moving average of how large calls are.
	steady = 15
)

// Weigh tells the plan about how many tokens the request has, its longest reply included. It is what counts at servers
// that do not say how busy they are.
func (p *Plan) Weigh(tokens int) { p.tokens = int64(tokens) }

// begin counts a call of so many tokens. It returns the number to pass to end.
func (s *server) begin(l *load, tokens int64) int64 {
	tokens = max(tokens, 1) // a call that nobody has weighed is one all the same
	s.running.Add(1)
	s.tokens.Add(tokens)
	// Two calls that begin at the same moment may lose one of the two, which an average does not mind.
	if usual := l.usual.Load(); usual == 0 {
		l.usual.Store(tokens)
	} else {
		l.usual.Store(max((steady*usual+tokens)/(steady+1), 1))
	}
	return tokens
}

// end takes back what begin has counted.
func (s *server) end(tokens int64) {
	s.running.Add(-1)
	s.tokens.Add(-tokens)
}

// pressure returns how busy the server of the target is, in calls: 0 if it has nothing to do. It costs some atomic loads.
// What is not a replica has a vendor behind it, whose servers nobody here can make busy: of it the running calls count.
//
// A replica that reports figures is judged by them, since they count the calls of all nodes and of everybody else. They
// are seconds old, so the calls that this node has begun or ended since are added. Of any other replica only the calls of
// this node are known: their tokens, divided by those of a usual call, because a long prompt or reply keeps a server
// busier than a short one.
func (t *Target) pressure() float64 {
	f := t.server.figures.Load()
	switch {
	case t.Replica == "":
		return float64(t.health.running.Load())
	case f == nil:
		return float64(t.server.tokens.Load()) / float64(max(t.load.usual.Load(), 1))
	}
	running := t.server.running.Load()
	busy := float64(max(f.Running+running-f.own, running, 0) + queued*f.Waiting)
	if f.CacheUse != nil && *f.CacheUse > tight {
		busy *= 1 + (*f.CacheUse-tight)/(1-tight) // twice as busy when it is full
	}
	return busy
}
