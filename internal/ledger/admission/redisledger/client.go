package redisledger

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
)

// transport brings scripts to Redis. The other implementation is the simulation's.
type transport interface {
	// load makes every server know all scripts.
	load(ctx context.Context)
	// run runs scripts in one round trip, in order where their keys are in one hash slot. It fills in one
	// answer for each. ctx has a deadline, and possibly no timer: see bounded.
	run(ctx context.Context, orders []order, answers []answer)
	close()
}

// client is the transport on real connections: on one to a server, where callers travel together, or on one to each server
// of a cluster, where each caller goes alone, so that a server that does not answer holds up nobody else.
type client struct {
	rueidis.Client
	together *trips // nil: a cluster
}

// dialer returns a function that connects to a server or a cluster. It calls dialed before each new
// connection, also when the client reconnects by itself.
func dialer(option rueidis.ClientOption, deadline time.Duration, dialed func()) func() (transport, error) {
	option.PipelineMultiplex = -1 // one connection
	// Whoever makes a trip has the connection for itself, and needs none of the goroutines of a pipeline.
	option.DisableAutoPipelining, option.BlockingPoolSize = true, 1
	option.ReadBufferEachConn, option.WriteBufferEachConn = 64<<10, 64<<10 // a batch; by default half a megabyte each
	// Client-side caching would cost Redis memory for keys that change with every call.
	option.DisableCache = true
	option.DisableRetry = true // a second attempt would outlive the deadline of the call
	option.Dialer.Timeout = 2 * deadline
	// A connection on which nothing has come back for this long is given up.
	option.ConnWriteTimeout = max(time.Second, 2*deadline)
	dial := option.DialCtxFn
	if dial == nil {
		dial = dialTCP
	}
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		dialed()
		ctx, cancel := timed(ctx)
		defer cancel()
		return dial(ctx, addr, d, t)
	}
	return func() (transport, error) {
		c, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		if c.Mode() != rueidis.ClientModeCluster {
			t := &trips{patience: deadline / 2}
			t.travel = client{Client: c}.travel
			return client{c, t}, nil
		}
		c.Close()
		piped := option
		piped.DisableAutoPipelining, piped.BlockingPoolSize = false, 0
		if c, err = rueidis.NewClient(piped); err != nil {
			return nil, err
		}
		return client{Client: c}, nil
	}
}

// dialTCP connects as rueidis does by default. A DialCtxFn replaces its default, so the choice
// between TLS and plain TCP is repeated here.
func dialTCP(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t != nil {
		return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// close closes the connections. What is under way fails, or comes to its end.
func (c client) close() { c.Close() }

// load loads all scripts together, because in a batch of which a server knows only some scripts those would
// overtake the others.
func (c client) load(ctx context.Context) {
	for _, node := range c.Nodes() {
		var commands rueidis.Commands
		for _, s := range scripts() {
			commands = append(commands, node.B().ScriptLoad().Script(s.text).Build())
		}
		node.DoMulti(ctx, commands...) // whatever fails is sent again when it is needed
	}
}

// run implements transport.
func (c client) run(ctx context.Context, orders []order, answers []answer) {
	if c.together != nil {
		c.together.run(ctx, orders, answers)
		return
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	c.travel(ctx, orders, answers)
}

// travel makes a round trip. A server that does not know a script, because it has restarted, is given its text.
func (c client) travel(ctx context.Context, orders []order, answers []answer) {
	if len(orders) == 1 {
		o := &orders[0]
		answers[0] = readAnswer(c.Do(ctx, c.known(o)))
	} else {
		commands := make(rueidis.Commands, len(orders))
		for i := range orders {
			commands[i] = c.known(&orders[i])
		}
		for i, r := range c.DoMulti(ctx, commands...) {
			answers[i] = readAnswer(r)
		}
	}
	var again []int
	for i := range answers {
		if e, ok := rueidis.IsRedisErr(answers[i].err); ok && e.IsNoScript() {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		c.runUnknown(ctx, orders, answers, again)
	}
}

// runUnknown runs the orders with the given numbers, whose scripts the server does not know.
// A script that was unknown has not run at all, so this is no repetition.
func (c client) runUnknown(ctx context.Context, orders []order, answers []answer, again []int) {
	c.load(ctx)
	commands := make(rueidis.Commands, 0, len(again))
	for _, i := range again {
		o := orders[i]
		commands = append(commands, c.B().Eval().Script(o.script.text).Numkeys(int64(len(o.keys))).Key(o.keys...).Arg(o.args...).Build())
	}
	for n, r := range c.DoMulti(ctx, commands...) {
		answers[again[n]] = readAnswer(r)
	}
}

// known returns the command for a script that the server should know.
func (c client) known(o *order) rueidis.Completed {
	return c.B().Evalsha().Sha1(o.script.hash).Numkeys(int64(len(o.keys))).Key(o.keys...).Arg(o.args...).Build()
}

// readAnswer returns what a script has returned.
// Scripts that return a number, such as revoke, get it as decimal digits like all other texts.
func readAnswer(r rueidis.RedisResult) (a answer) {
	m, err := r.ToMessage()
	if err != nil {
		return answer{err: err}
	}
	if m.IsInt64() {
		n, err := m.AsInt64()
		return answer{text: itoa(n), err: err}
	}
	a.text, a.err = m.ToString()
	return a
}
