package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
)

// The bounds of the outbox. They keep a burst of mail, or a recipient whose server is down, from
// using up memory.
const (
	maxWaiting = 1000      // messages in all
	maxBytes   = 16 << 20  // of all messages together
	maxMessage = 256 << 10 // bytes of one message
	maxTo      = 20        // messages to one recipient
	maxAge     = time.Hour // no attempt starts later, because most links expire soon after

	senders = 4 // attempts at once
	// patience bounds one attempt, and farewell all the messages that are still waiting when the
	// process stops.
	patience = 30 * time.Second
	farewell = 10 * time.Second
)

// pauses are the delays between attempts. Servers that use greylisting accept a message after some
// minutes. The number of delays limits the number of retries.
var pauses = []time.Duration{2 * time.Second, 15 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}

// Outbox holds messages until they are sent. A message that cannot be delivered waits for its next
// attempt while others are sent; only messages to the same recipient keep their order. Messages are
// lost when the process ends. That is acceptable: users can request them again, or see the same on
// a page.
type Outbox struct {
	sender Sender
	log    *slog.Logger
	wake   chan struct{} // signals Run, which looks at all lanes, that they have changed; holds at most one token

	// mu guards everything below.
	mu sync.Mutex
	// lanes holds the waiting messages by recipient, in lower case. No lane is empty.
	lanes   map[string]*lane
	waiting int // messages in all lanes
	bytes   int // size of all messages
	// failing is when the first attempt failed since one succeeded; zero: none. A recipient that the server
	// refuses is not the server's failure.
	failing time.Time
}

// Look says whether mail is being delivered. Calls do not need it, so it never fails.
func (o *Outbox) Look(context.Context) (f health.Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing.IsZero() {
		f.Age = time.Since(o.failing)
		f.Message = fmt.Sprintf("no mail was delivered for %s; %d wait", f.Age.Round(time.Second), o.waiting)
	}
	return f
}

// lane holds the messages to one recipient, oldest first.
type lane struct {
	letters []letter
	due     time.Time // time of the next attempt
	busy    bool      // an attempt is in progress, so the first message must stay
}

// letter is a message and the state of its delivery.
type letter struct {
	// posted is when Post accepted the message, and attempts counts the failed attempts.
	Message
	posted   time.Time
	attempts int
}

// NewOutbox returns an outbox that delivers through sender. Nothing is sent until Run is called.
func NewOutbox(sender Sender, log *slog.Logger) *Outbox {
	return &Outbox{sender: sender, log: log, wake: make(chan struct{}, 1), lanes: map[string]*lane{}}
}

// Post queues a message and returns immediately. If the outbox is full, a message is dropped and
// the log says so. A message that has failed before is dropped first, so that recipients whose
// server does not answer cannot block the mail of others.
func (o *Outbox) Post(m Message) {
	if why := o.add(m, time.Now()); why != "" {
		o.lost(&m, why)
	}
	pace.Wake(o.wake)
}

// add queues a message. It returns the reason if the message cannot be accepted, or an empty
// string.
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

// makeRoom drops the message with the most failed attempts and reports whether there was one. It
// only looks at the first message of each lane, because later ones have never been tried. The
// caller holds mu.
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

// remove removes a recipient's first message and makes the next one due now. The caller holds mu.
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

// lost logs a message that is dropped. The text is not logged: it may contain a link that signs in.
func (o *Outbox) lost(m *Message, why string) {
	o.log.Error("a mail could not be sent", "to", m.To, "subject", m.Subject, "error", why)
}

// Run delivers messages until ctx ends. Then it waits for the attempts in progress and tries each
// message that is still waiting once more, for at most farewell.
func (o *Outbox) Run(ctx context.Context) {
	var sending sync.WaitGroup
	free := make(chan struct{}, senders)
	for {
		free <- struct{}{} // if all senders are busy, wait for one to finish
		to, ok := o.next(ctx)
		if !ok {
			break
		}
		sending.Go(func() {
			defer func() { <-free }()
			// An attempt that has started may finish after ctx ends; patience bounds it.
			o.attempt(context.WithoutCancel(ctx), to)
			pace.Wake(o.wake)
		})
	}
	sending.Wait()
	o.finish(context.WithoutCancel(ctx))
}

// next waits until an attempt is due, marks its lane as busy, and returns the recipient. It returns
// false when ctx has ended.
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

// pick returns a recipient whose message is due, or else how long to wait until one is. Messages
// that have never been tried go first, and then those that have been due for the longest time.
func (o *Outbox) pick(now time.Time) (to string, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var first *lane
	wait = time.Hour // any upper bound will do: posting and finished attempts wake us
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

// fresher reports whether l should be tried before than.
func (l *lane) fresher(than *lane) bool {
	if fresh := l.letters[0].attempts == 0; fresh != (than.letters[0].attempts == 0) {
		return fresh
	}
	return l.due.Before(than.due)
}

// attempt tries to deliver a recipient's first message and updates the lane. The lane must be busy.
// The lock is not held while sending.
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
	l := o.lanes[to] // still there: busy lanes are never removed
	l.busy = false
	_, refused := errors.AsType[*Refused](err)
	switch {
	case err == nil || refused:
		o.failing = time.Time{}
	case o.failing.IsZero():
		o.failing = now
	}
	if err == nil {
		o.remove(to, now)
		return
	}
	// Give up if the error is permanent, if the retries are used up, or if the next attempt would
	// start too late. Otherwise schedule the next attempt.
	first := &l.letters[0]
	first.attempts++
	if refused || first.attempts > len(pauses) || now.Sub(first.posted)+pauses[first.attempts-1] > maxAge {
		o.lost(&m, err.Error())
		o.remove(to, now)
		return
	}
	l.due = now.Add(pauses[first.attempts-1])
}

// finish tries every waiting message once when the process stops. It empties the outbox first, so
// that nothing is sent twice.
func (o *Outbox) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	o.mu.Lock()
	lanes := o.lanes
	o.lanes, o.waiting, o.bytes = map[string]*lane{}, 0, 0
	o.mu.Unlock()
	var sending errgroup.Group
	sending.SetLimit(senders)
	for _, l := range lanes {
		sending.Go(func() error {
			for i := range l.letters {
				o.last(ctx, &l.letters[i].Message)
			}
			return nil
		})
	}
	_ = sending.Wait() // last reports what fails
}

// last makes the final attempt to deliver a message, and logs it as lost if that fails.
func (o *Outbox) last(ctx context.Context, m *Message) {
	err := ctx.Err()
	if err == nil {
		err = o.sender.Send(ctx, *m)
	}
	if err != nil {
		o.lost(m, err.Error())
	}
}
