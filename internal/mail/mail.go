// Package mail sends what the service has to tell people by e-mail.
//
// An Outbox takes messages without a wait, so that nobody can learn from the time of a reply whether
// one was sent, and hands them to a Sender in the background: a mail server where the operator has
// set one up, else the server's log, where the operator finds the links and passes them on.
package mail

import (
	"context"
	"log/slog"
)

// Message is one mail of plain text.
type Message struct {
	To      string
	Subject string
	Text    string
}

func (m *Message) size() int { return len(m.To) + len(m.Subject) + len(m.Text) }

// Sender delivers a message, or says why it cannot. It keeps to the deadline of ctx. A message that would never
// be taken is a *Refused; after any other error it is tried again. It may be called by several goroutines at once.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Refused means that a message was refused for good: another attempt would end the same.
type Refused struct{ Err error }

// Error implements error.
func (r *Refused) Error() string { return "refused: " + r.Err.Error() }

// Unwrap returns the reason.
func (r *Refused) Unwrap() error { return r.Err }

// Log is the sender where no mail server is set up: the operator reads what should have been sent.
type Log struct{ log *slog.Logger }

// NewLog returns a sender that writes to the log.
func NewLog(log *slog.Logger) *Log { return &Log{log} }

// Send implements Sender.
func (l *Log) Send(_ context.Context, m Message) error {
	l.log.Info("no mail server is set up; please pass this on", "to", m.To, "subject", m.Subject, "text", m.Text)
	return nil
}
