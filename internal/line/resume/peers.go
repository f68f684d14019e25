package resume

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

// Bus carries messages between nodes. Some may be lost.
type Bus interface {
	// Tell sends a message of at most 7,000 bytes to all other nodes.
	Tell(ctx context.Context, message string) error
	// Hear calls got with the messages of other nodes, one after the other. Got must be quick.
	Hear(got func(message string))
	// Tag names this node: 1 to 16 letters or digits. Lives reports whether another node has the tag.
	Tag() string
	Lives(tag string) bool
}

const (
	// portion is how many bytes of events one message carries. Sealed and in base64 they fit into one.
	portion = 4800
	// atOnce is how many streams of other nodes are read here at a time. Other nodes together may read lentAtOnce here.
	atOnce     = 64
	lentAtOnce = 16 * atOnce
	// holding is how long the node that holds a stream waits for something to send. The asking node waits longer for
	// the answer, then asks again, and gives up after the last attempt.
	holding  = time.Second
	answerIn = 3 * time.Second
	attempts = 4
	// pace is the shortest time between two questions about a stream that has nothing waiting.
	pace = 50 * time.Millisecond
	// absent is how long a node that reads may be silent before its reader counts as gone.
	absent = 15 * time.Second
	// farewell is how long a node takes to say that it reads no more.
	farewell = time.Second
)

// What a question begins with, and the answers to it.
const (
	ask = "ask"
	cut = "cut"

	someMore  = "more" // with events, or without if there were none in time
	noMore    = "end"  // the stream was read to its end
	takenOver = "over"
	lost      = "lost"
	unknown   = "none" // there is no such stream of the account here
	refused   = "bad"  // with a message about Last-Event-ID
)

// peers reads streams of other nodes, and lets them read those of this one.
//
// A node asks for one portion at a time, so one that reads slowly is not flooded, and a lost message only costs
// time: a question is repeated, and its answer is kept until the next one. A question is
//
//	ask <node or *> <session> <number> <account> <event> <stream>
//
// and its answer, whose last field is sealed,
//
//	got <session> <number> <what> <events>
//
// At its end the asking node says
//
//	bye <session>
//
// A question that begins with "cut" ends the call instead, and its answer is "end".
type peers struct {
	streams *Streams
	bus     Bus
	tag     string
	key     seal.Key

	ctx    context.Context //nolint:containedctx // ends the work that questions of other nodes have started
	cancel context.CancelFunc

	mu       sync.Mutex // guards the fields below
	closed   bool
	working  sync.WaitGroup
	sessions map[string]*session    // of other nodes
	waiting  map[string]chan answer // of this node
}

// newPeers begins to listen at once: another node may ask for a stream before Run is called.
func newPeers(s *Streams, bus Bus, key seal.Key) *peers {
	p := &peers{streams: s, bus: bus, tag: bus.Tag(), key: key, sessions: map[string]*session{}, waiting: map[string]chan answer{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	bus.Hear(p.heard)
	return p
}

// Run lets other nodes read the streams of this one until ctx ends.
func (s *Streams) Run(ctx context.Context) {
	if s.peers == nil {
		return
	}
	<-ctx.Done()
	p := s.peers
	p.mu.Lock()
	p.closed = true
	for _, ses := range p.sessions {
		ses.timer.Stop()
	}
	p.mu.Unlock()
	p.cancel()
	p.working.Wait()
}

// question is what a node asks the one that holds a stream.
type question struct {
	to, session string
	number      int
	account     string
	after       int
	stream      string
	verb        string
}

// String returns the question as it is sealed and sent.
func (q *question) String() string {
	return strings.Join([]string{q.verb, q.to, q.session, strconv.Itoa(q.number), q.account, strconv.Itoa(q.after), q.stream}, " ")
}

// answer is what it says.
type answer struct {
	number int
	what   string
	events []byte
}

// heard takes a message of another node.
func (p *peers) heard(message string) {
	f := strings.Split(message, " ")
	switch {
	case len(f) == 7 && (f[0] == ask || f[0] == cut) && (f[1] == p.tag || f[1] == "*"):
		number, err := strconv.Atoi(f[3])
		after, wrong := strconv.Atoi(f[5])
		if err != nil || wrong != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			q := &question{f[1], f[2], number, f[4], after, f[6], f[0]}
			p.working.Go(func() { p.reply(q) })
		}
	case len(f) == 5 && f[0] == "got":
		p.deliver(f)
	case len(f) == 2 && f[0] == "bye":
		p.forget(f[1])
	}
}

// deliver hands an answer to the one who waits for it, if there is one.
func (p *peers) deliver(f []string) {
	p.mu.Lock()
	to := p.waiting[f[1]]
	p.mu.Unlock()
	if to == nil {
		return
	}
	number, err := strconv.Atoi(f[2])
	if err != nil {
		return
	}
	sealed, err := base64.RawStdEncoding.DecodeString(f[4])
	if err != nil {
		return
	}
	events, err := p.box(f[1], number, f[3]).Open(sealed)
	if err != nil {
		return // from somebody who does not know the key
	}
	select {
	case to <- answer{number, f[3], events}:
	default: // a repeat; nobody has missed it
	}
}

// box returns the box of an answer. It is bound to the question, so that no answer can stand for another.
func (p *peers) box(session string, number int, what string) seal.Box {
	return p.key.Box("resume", session+" "+strconv.Itoa(number)+" "+what, "")
}

// session is a reader on another node.
type session struct {
	mu     sync.Mutex // held while a question is answered
	reader *Reader
	rest   []byte // events that were read and not sent
	number int    // of the last question
	last   string // its answer
	timer  *time.Timer
}

// reply answers a question of another node.
func (p *peers) reply(q *question) {
	if q.verb == cut {
		switch {
		case p.streams.end(q.stream, q.account):
			p.tell(p.message(q, noMore, nil))
		case q.to != "*":
			p.tell(p.message(q, unknown, nil))
		}
		return
	}
	ses, message := p.session(q)
	if ses == nil {
		if message != "" {
			p.tell(message)
		}
		return
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	switch q.number {
	case ses.number: // asked again: the answer was lost, or is late
	case ses.number + 1:
		ses.number = q.number
		what, events := ses.portion(p.ctx)
		ses.last = p.message(q, what, events)
	default:
		return // an old question that has overtaken nobody
	}
	p.tell(ses.last)
}

// session returns the session of a question, which the first one begins. Without a session it returns the answer,
// or none if another node may know better.
func (p *peers) session(q *question) (*session, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ses := p.sessions[q.session]; ses != nil {
		ses.timer.Reset(absent)
		return ses, ""
	}
	switch {
	case q.number != 1 && q.to == "*", len(p.sessions) >= lentAtOnce:
		return nil, "" // another node has the session, or this one is asked again
	case q.number != 1:
		return nil, p.message(q, lost, nil)
	}
	r, err := p.streams.attach(q.stream, q.account, q.after)
	switch {
	case err != nil:
		return nil, p.message(q, refused, []byte(fault.From(err).Message))
	case r == nil && q.to == "*":
		return nil, ""
	case r == nil:
		return nil, p.message(q, unknown, nil)
	}
	r.most = portion
	ses := &session{reader: r}
	ses.timer = time.AfterFunc(absent, func() { p.forget(q.session) })
	p.sessions[q.session] = ses
	return ses, ""
}

// forget ends a session, if there is one.
func (p *peers) forget(id string) {
	p.mu.Lock()
	ses := p.sessions[id]
	delete(p.sessions, id)
	p.mu.Unlock()
	if ses != nil {
		ses.timer.Stop()
		ses.reader.Close()
	}
}

// portion returns what comes next.
func (ses *session) portion(ctx context.Context) (what string, events []byte) {
	if len(ses.rest) == 0 {
		var err error
		ses.rest, err = ses.reader.Next(ctx, holding)
		switch {
		case errors.Is(err, io.EOF):
			return noMore, nil
		case errors.Is(err, ErrTakenOver):
			return takenOver, nil
		case err != nil:
			return lost, nil
		}
	}
	n := min(len(ses.rest), portion)
	events, ses.rest = ses.rest[:n], ses.rest[n:]
	return someMore, events
}

// message returns the answer to a question.
func (p *peers) message(q *question, what string, events []byte) string {
	sealed := p.box(q.session, q.number, what).Seal(events)
	return fmt.Sprintf("got %s %d %s %s", q.session, q.number, what, base64.RawStdEncoding.EncodeToString(sealed))
}

// tell sends a message. If it is lost, the other node asks again.
func (p *peers) tell(message string) { _ = p.bus.Tell(p.ctx, message) }

// attach continues a stream that another node holds.
func (p *peers) attach(ctx context.Context, id, account, tag string, after int) (Source, error) {
	if !plain(id) || tag == p.tag || tag != "" && !p.bus.Lives(tag) {
		return nil, Unknown(excerpt.Of(id, maxID))
	}
	r, first, err := p.begin(ctx, tag, question{account: account, after: after, stream: id, verb: ask})
	if err != nil {
		return nil, err
	}
	if first.what == refused {
		r.Close()
		return nil, fault.New(fault.Invalid, "%s", first.events).At("Last-Event-ID")
	}
	r.first = &first
	return r, nil
}

// end ends the call of a stream that another node holds.
func (p *peers) end(ctx context.Context, id, account, tag string) error {
	if !plain(id) || tag == p.tag || tag != "" && !p.bus.Lives(tag) {
		return Unknown(excerpt.Of(id, maxID))
	}
	r, _, err := p.begin(ctx, tag, question{account: account, stream: id, verb: cut})
	if err == nil {
		r.Close()
	}
	return err
}

// begin asks the node that holds a stream, or all of them if tag is empty, the first question. The caller closes what
// it returns.
func (p *peers) begin(ctx context.Context, tag string, q question) (*remote, answer, error) {
	q.to, q.session = cmp.Or(tag, "*"), rand.Text()
	r := &remote{peers: p, question: q, answers: make(chan answer, 2)}
	p.mu.Lock()
	full := len(p.waiting) >= atOnce
	if !full {
		p.waiting[r.question.session] = r.answers
	}
	p.mu.Unlock()
	if full {
		return nil, answer{}, fault.New(fault.Unavailable, "This server resumes as many streams of other servers as it can. Try again in a moment.").After(time.Second)
	}
	first, err := r.ask(ctx)
	switch {
	case err == nil && first.what == unknown, errors.Is(err, errSilence) && tag == "":
		err = Unknown(excerpt.Of(q.stream, maxID))
	case errors.Is(err, errSilence):
		err = fault.New(fault.Unavailable, "The server that holds this stream does not answer. Try again.").After(time.Second)
	}
	if err != nil {
		r.Close()
		return nil, answer{}, err
	}
	return r, first, nil
}

// plain reports whether an id can be part of a message.
func plain(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// remote reads a stream of another node. One goroutine uses it.
type remote struct {
	peers    *peers
	question question // the last one
	answers  chan answer
	first    *answer // the answer to the first, until Next has returned it
	asked    time.Time
	full     bool // the last answer was as large as one may be
}

// errSilence may also mean that the node which held the stream has ended.
var errSilence = errors.New("no other node has answered")

// Next implements Source. What it returns may end in the middle of an event; the rest comes next.
func (r *remote) Next(ctx context.Context, wait time.Duration) ([]byte, error) {
	for until := time.Now().Add(wait); ; {
		a := answer{}
		var err error
		if r.first != nil {
			a, r.first = *r.first, nil
		} else if a, err = r.ask(ctx); err != nil {
			return nil, err
		}
		r.full = len(a.events) == portion
		switch {
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

// ask asks for the next portion.
func (r *remote) ask(ctx context.Context) (answer, error) {
	if early := pace - time.Since(r.asked); early > 0 && !r.full {
		timer := time.NewTimer(early)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}
	r.question.number++
	most := attempts
	if r.question.to == "*" && r.question.number == 1 {
		most = 1
	}
	for range most {
		r.asked = time.Now()
		if a, ok, err := r.try(ctx); ok || err != nil {
			return a, err
		}
	}
	return answer{}, errSilence
}

// try asks once.
func (r *remote) try(ctx context.Context) (a answer, ok bool, err error) {
	timer := time.NewTimer(answerIn)
	defer timer.Stop()
	if err := r.peers.bus.Tell(ctx, r.question.String()); err != nil && ctx.Err() == nil {
		return answer{}, false, fault.New(fault.Unavailable, "Other servers cannot be reached to resume this stream. Try again.").After(time.Second).Because(err)
	}
	for {
		select {
		case a := <-r.answers:
			if a.number == r.question.number {
				return a, true, nil
			}
		case <-timer.C:
			return answer{}, false, nil
		case <-ctx.Done():
			return answer{}, false, ctx.Err()
		}
	}
}

// Close implements Source. If the farewell is lost, the other node learns it from the silence.
func (r *remote) Close() {
	p := r.peers
	p.mu.Lock()
	delete(p.waiting, r.question.session)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.ctx, farewell)
	defer cancel()
	_ = p.bus.Tell(ctx, "bye "+r.question.session)
}
