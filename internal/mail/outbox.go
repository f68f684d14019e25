package mail

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	maxWaiting = 1000      // messages
	maxBytes   = 16 << 20  // of all messages together
	maxMessage = 256 << 10 // bytes of one
	maxTo      = 20        // messages to one recipient
	maxAge     = time.Hour // no attempt begins later: links are not good for much longer

	senders  = 4                // attempts at once
	patience = 30 * time.Second // for one attempt
	farewell = 10 * time.Second // for all that still wait when the process stops
)

// pauses are the waits between attempts. Servers that defer strangers' mail take it after some minutes.
var pauses = []time.Duration{2 * time.Second, 15 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// Outbox holds messages until they are sent. A message that cannot be delivered waits for its next attempt
// while others are sent; only messages to the same recipient stay in order. They do not survive the process:
// whatever matters can be asked for again, or is on a page as well.
type Outbox struct {
	sender Sender
	log    *slog.Logger
	wake   chan struct{} // there is something new to look at

	mu      sync.Mutex
	lanes   map[string]*lane // none is empty
	waiting int
	bytes   int
}

// lane is the messages to one recipient, in order.
type lane struct {
	letters []letter
	due     time.Time // of the next attempt
	busy    bool      // an attempt is under way
}

// letter is a message and what has become of it.
type letter struct {
	Message
	posted   time.Time
	attempts int
}

// NewOutbox returns an outbox that delivers through sender; see Run.
func NewOutbox(sender Sender, log *slog.Logger) *Outbox {
	return &Outbox{sender: sender, log: log, wake: make(chan struct{}, 1), lanes: map[string]*lane{}}
}

// Post takes a message. It does not wait: where too many are waiting one is dropped, and the log says so. That is
// one that has failed before, if there is any: recipients whose server does not answer must not keep others'
// mail out.
func (o *Outbox) Post(m Message) {
	if why := o.add(m, time.Now()); why != "" {
		o.lost(&m, why)
	}
	o.rouse()
}

// add returns why a message cannot be taken.
func (o *Outbox) add(m Message, now time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.size() > maxMessage {
		return "it is too large"
	}
	to := strings.ToLower(m.To)
	if l := o.lanes[to]; l != nil && len(l.letters) >= maxTo {
		return "too many are waiting for this recipient"
	}
	for o.waiting >= maxWaiting || o.bytes+m.size() > maxBytes {
		if !o.makeRoom() {
			return "too many are waiting"
		}
	}
	l := o.lanes[to]
	if l == nil {
		l = &lane{due: now}
		o.lanes[to] = l
	}
	l.letters = append(l.letters, letter{Message: m, posted: now})
	o.waiting++
	o.bytes += m.size()
	return ""
}

// makeRoom drops the message that has failed most often, and reports whether there was one.
func (o *Outbox) makeRoom() bool {
	worst, most := "", 0
	for to, l := range o.lanes {
		if n := l.letters[0].attempts; n > most && !l.busy {
			worst, most = to, n
		}
	}
	if most == 0 {
		return false
	}
	o.lost(&o.lanes[worst].letters[0].Message, "too many are waiting, and it has failed before")
	o.remove(worst, time.Now())
	return true
}

// remove takes the first message of a recipient out; the next one is due at once.
func (o *Outbox) remove(to string, now time.Time) {
	l := o.lanes[to]
	o.waiting--
	o.bytes -= l.letters[0].size()
	l.letters = l.letters[1:]
	l.due = now
	if len(l.letters) == 0 {
		delete(o.lanes, to)
	}
}

func (o *Outbox) lost(m *Message, why string) {
	o.log.Error("a mail could not be sent", "to", m.To, "subject", m.Subject, "error", why)
}

func (o *Outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Run delivers messages until ctx ends, and then tries those that still wait once, as long as its patience lasts.
func (o *Outbox) Run(ctx context.Context) {
	var sending sync.WaitGroup
	free := make(chan struct{}, senders)
	for {
		free <- struct{}{} // waits for one attempt at most, where all are under way
		to, ok := o.next(ctx)
		if !ok {
			break
		}
		sending.Go(func() {
			defer func() { <-free }()
			o.attempt(context.WithoutCancel(ctx), to)
			o.rouse()
		})
	}
	sending.Wait()
	o.finish(context.WithoutCancel(ctx))
}

// next waits until an attempt is due and returns its recipient, who is busy from then on; false: ctx has ended.
func (o *Outbox) next(ctx context.Context) (to string, ok bool) {
	for ctx.Err() == nil {
		to, wait := o.pick(time.Now())
		if to != "" {
			return to, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-o.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return "", false
}

// pick returns a recipient whose message is due, or else how long none will be. Messages that were never tried go
// first, then those that have waited longest.
func (o *Outbox) pick(now time.Time) (to string, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var first *lane
	wait = time.Hour // somebody posts before, or an attempt ends
	for name, l := range o.lanes {
		switch {
		case l.busy:
		case l.due.After(now):
			wait = min(wait, l.due.Sub(now))
		case first == nil || l.fresher(first):
			to, first = name, l
		}
	}
	if first == nil {
		return "", wait
	}
	first.busy = true
	return to, 0
}

func (l *lane) fresher(than *lane) bool {
	if fresh := l.letters[0].attempts == 0; fresh != (than.letters[0].attempts == 0) {
		return fresh
	}
	return l.due.Before(than.due)
}

// attempt tries to deliver the first message of a recipient.
func (o *Outbox) attempt(ctx context.Context, to string) {
	o.mu.Lock()
	m := o.lanes[to].letters[0].Message
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	err := o.sender.Send(ctx, m)
	cancel()

	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	l := o.lanes[to] // still there: nobody removes what is busy
	l.busy = false
	if err == nil {
		o.remove(to, now)
		return
	}
	first := &l.letters[0]
	first.attempts++
	_, refused := errors.AsType[*Refused](err)
	if refused || first.attempts > len(pauses) || now.Sub(first.posted)+pauses[first.attempts-1] > maxAge {
		o.lost(&m, err.Error())
		o.remove(to, now)
		return
	}
	l.due = now.Add(pauses[first.attempts-1])
}

// finish tries what still waits once, when the process stops.
func (o *Outbox) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	turns := make(chan *lane)
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			for l := range turns {
				for i := range l.letters {
					o.last(ctx, &l.letters[i].Message)
				}
			}
		})
	}
	o.mu.Lock()
	lanes := o.lanes
	o.lanes, o.waiting, o.bytes = map[string]*lane{}, 0, 0
	o.mu.Unlock()
	for _, l := range lanes {
		turns <- l
	}
	close(turns)
	sending.Wait()
}

// last is the last attempt at a message.
func (o *Outbox) last(ctx context.Context, m *Message) {
	err := ctx.Err()
	if err == nil {
		err = o.sender.Send(ctx, *m)
	}
	if err != nil {
		o.lost(m, err.Error())
	}
}
