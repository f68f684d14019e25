// Package mail sends what the service has to tell people by e-mail.
//
// An Outbox takes messages without a wait, so that nobody can learn from the time of a reply whether
// one was sent, and hands them to a Sender in the background: a mail server where the operator has
// set one up, else the server's log, where the operator finds the links and passes them on.
package mail

import (
	"context"
	"log/slog"
	"time"
)

// Message is one mail of plain text.
type Message struct {
	To      string
	Subject string
	Text    string
}

// Sender delivers a message, or says why it cannot.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

const (
	outboxSize = 1000
	patience   = 30 * time.Second // for one attempt
)

// pauses are the waits between attempts.
var pauses = []time.Duration{2 * time.Second, 15 * time.Second, 2 * time.Minute}

// Outbox holds messages until they are sent. They do not survive the process: whatever matters can be
// asked for again, or is on a page as well.
type Outbox struct {
	sender  Sender
	log     *slog.Logger
	waiting chan Message
}

// NewOutbox returns an outbox that delivers through sender; see Run.
func NewOutbox(sender Sender, log *slog.Logger) *Outbox {
	return &Outbox{sender: sender, log: log, waiting: make(chan Message, outboxSize)}
}

// Post takes a message. It does not wait: where too many are waiting it is dropped, and the log says so.
func (o *Outbox) Post(m Message) {
	select {
	case o.waiting <- m:
	default:
		o.log.Error("a mail was dropped: too many are waiting", "to", m.To, "subject", m.Subject)
	}
}

// Run delivers messages until ctx ends, and then tries those that still wait once.
func (o *Outbox) Run(ctx context.Context) {
	for {
		select {
		case m := <-o.waiting:
			o.deliver(ctx, m)
		case <-ctx.Done():
			for {
				select {
				case m := <-o.waiting:
					o.deliver(ctx, m)
				default:
					return
				}
			}
		}
	}
}

// deliver tries until a message is sent or patience ends.
func (o *Outbox) deliver(ctx context.Context, m Message) {
	for attempt := 0; ; attempt++ {
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		err := o.sender.Send(once, m)
		cancel()
		if err == nil {
			return
		}
		if attempt == len(pauses) || ctx.Err() != nil {
			o.log.Error("a mail could not be sent", "to", m.To, "subject", m.Subject, "error", err.Error())
			return
		}
		select {
		case <-time.After(pauses[attempt]):
		case <-ctx.Done():
		}
	}
}

// Log is the sender where no mail server is set up: the operator reads what should have been sent.
type Log struct{ log *slog.Logger }

// NewLog returns a sender that writes to the log.
func NewLog(log *slog.Logger) *Log { return &Log{log} }

// Send implements Sender.
func (l *Log) Send(_ context.Context, m Message) error {
	l.log.Info("no mail server is set up; please pass this on", "to", m.To, "subject", m.Subject, "text", m.Text)
	return nil
}
