// Package mail sends e-mail to people on behalf of the service.
//
// An Outbox accepts messages without waiting, so that the response time never reveals whether a
// message was sent. It passes them to a Sender in the background: a mail server if the operator has
// configured one, or else the server's log, where the operator finds the links and can pass them
// on.
package mail

import (
	"context"
	"log/slog"
)

// Message is one plain-text mail.
// To is a bare address without a display name. Text uses \n as its line break.
type Message struct {
	To      string
	Subject string
	Text    string
	// Unsubscribe is a URL that takes the recipient off a list when somebody posts to it; empty: the mail is of no list.
	Unsubscribe string
}

// size returns about how many bytes the message takes in the outbox.
func (m *Message) size() int { return len(m.To) + len(m.Subject) + len(m.Text) }

// Sender delivers messages. Send respects the deadline of ctx. It returns a *Refused if the message
// can never be delivered; after any other error the caller retries. Send must be safe for
// concurrent use.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Refused means that a message was refused permanently, so a retry would fail as well.
type Refused struct{ Err error }

// Error implements error.
func (r *Refused) Error() string { return "refused: " + r.Err.Error() }

// Unwrap returns the reason for the refusal.
func (r *Refused) Unwrap() error { return r.Err }

// New returns the sender for a mail server; see NewSMTP. Without a server it is a Log, so that a developer can read the
// links there.
func New(server, from string, opts *SMTPOptions, log *slog.Logger) (Sender, error) {
	if server == "" {
		return NewLog(log), nil
	}
	return NewSMTP(server, from, opts)
}

// Log is the Sender to use if no mail server is configured. It writes messages to the log, so that
// the operator can pass them on.
type Log struct{ log *slog.Logger }

// NewLog returns a sender that writes to the log.
func NewLog(log *slog.Logger) *Log { return &Log{log} }

// Send implements Sender.
func (l *Log) Send(_ context.Context, m Message) error {
	l.log.Info("no mail server is configured; please forward this message", "to", m.To, "subject", m.Subject, "text", m.Text)
	return nil
}
