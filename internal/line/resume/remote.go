package resume

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"sluice/internal/kit/fault"
)

// remote reads a stream of another node. One goroutine uses it.
type remote struct {
	peers  *peers
	frames frames
	body   io.Closer
	cancel context.CancelFunc // ends the request, and with it the reading at the other node

	first   answer
	waiting bool // Next has not returned first yet
}

// Next implements Source. What it returns may end in the middle of an event; the rest comes next. If ctx ends, so does the
// source.
func (r *remote) Next(ctx context.Context, wait time.Duration) ([]byte, error) {
	for until := time.Now().Add(wait); ; {
		a, err := r.first, error(nil)
		if !r.waiting {
			a, err = r.read(ctx)
		}
		r.waiting = false
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, errors.Join(ErrLost, err)
		case a.what == noMore:
			return nil, io.EOF
		case a.what == takenOver:
			return nil, ErrTakenOver
		case a.what != someMore:
			return nil, ErrLost
		case len(a.events) > 0 || !time.Now().Before(until):
			return a.events, nil
		}
	}
}

// read reads an answer. A node that sends nothing, not even that it has nothing, is gone.
func (r *remote) read(ctx context.Context) (answer, error) {
	defer context.AfterFunc(ctx, r.cancel)()
	silent := time.AfterFunc(absent, r.cancel)
	defer silent.Stop()
	return r.frames.next()
}

// end ends the connection, which tells the other node that nobody reads any more.
func (r *remote) end() {
	r.cancel()
	_ = r.body.Close()
}

// Close implements Source.
func (r *remote) Close() {
	r.end()
	<-r.peers.reading
}

// sending is how long a write to another node may take.
const sending = time.Minute

// Serve answers the request of another node, with a stream of this one or without, and ends with ctx. It reports false if
// the request is not of a node of this installation, or is a copy. Nothing was sent then, and whoever sent the request should
// not learn that there is anything here.
func (s *Streams) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request) bool {
	p, values := s.peers, r.Header[nodeHeader]
	if p == nil || r.Method != http.MethodPost || len(values) != 1 {
		return false
	}
	q, ok := openQuestion(p.key, p.tag, values[0])
	if !ok || p.nodes.Now().Sub(q.at).Abs() > window || !p.asked.first(q.nonce) {
		return false
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	p.answer(ctx, &loan{w: w, control: http.NewResponseController(w), frames: frames{key: p.key, nonce: q.nonce}}, &q)
	return true
}

// loan is a reply to another node.
type loan struct {
	w       http.ResponseWriter
	control *http.ResponseController
	frames  frames
	out     []byte
}

// send sends an answer. It reports false if the other node has left.
func (l *loan) send(what byte, events []byte) bool {
	l.out = l.frames.add(l.out[:0], what, events)
	_ = l.control.SetWriteDeadline(time.Now().Add(sending)) // where there is none, the server has one
	_, err := l.w.Write(l.out)
	return err == nil && l.control.Flush() == nil
}

// answer answers a question.
func (p *peers) answer(ctx context.Context, to *loan, q *question) {
	select {
	case p.lent <- struct{}{}:
		defer func() { <-p.lent }()
	default:
		to.send(busy, nil)
		return
	}
	if q.cut {
		if p.streams.end(q.stream, q.account) {
			to.send(noMore, nil)
		} else {
			to.send(unknown, nil)
		}
		return
	}
	r, err := p.streams.attach(q.stream, q.account, q.after)
	switch {
	case err != nil:
		to.send(refused, []byte(fault.From(err).Message))
	case r == nil:
		to.send(unknown, nil)
	default:
		defer r.Close()
		p.lend(ctx, to, r)
	}
}

// lend sends a stream, from its reader on.
func (p *peers) lend(ctx context.Context, to *loan, r *Reader) {
	for sent := to.send(someMore, nil); sent; { // the first says that there is a stream
		events, err := r.Next(ctx, holding)
		switch {
		case errors.Is(err, io.EOF):
			to.send(noMore, nil)
			return
		case errors.Is(err, ErrTakenOver):
			to.send(takenOver, nil)
			return
		case errors.Is(err, ErrLost):
			to.send(lost, nil)
			return
		case err != nil: // the other node has left, or this one stops
			return
		}
		// An event may be longer than a piece.
		for {
			n := min(len(events), piece)
			if sent = to.send(someMore, events[:n]); !sent || n == len(events) {
				break
			}
			events = events[n:]
		}
	}
}
