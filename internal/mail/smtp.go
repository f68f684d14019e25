package mail

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"
)

// SMTPOptions are the choices of NewSMTP; the zero value is the default.
type SMTPOptions struct {
	User     string // empty: no authentication
	Password string
	// ImplicitTLS speaks TLS from the first byte, as on port 465. Otherwise STARTTLS is used where the
	// server offers it, and required before a password is sent.
	ImplicitTLS bool
	// TLS is the client's side of TLS; for tests.
	TLS *tls.Config
}

// SMTP delivers through a mail server.
type SMTP struct {
	addr string
	host string
	from mail.Address
	opts SMTPOptions
}

// NewSMTP returns a sender through the server at addr (host:port), from the given address, which may
// have a name: "Sluice <no-reply@example.com>".
func NewSMTP(addr, from string, opts *SMTPOptions) (*SMTP, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("mail server %q: %w", addr, err)
	}
	sender, err := mail.ParseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("sender %q: %w", from, err)
	}
	s := &SMTP{addr: addr, host: host, from: *sender}
	if opts != nil {
		s.opts = *opts
	}
	return s, nil
}

const (
	// conversation bounds one delivery from dialing to the last word, where ctx has no deadline.
	conversation = 30 * time.Second
	// maxReplies bounds what the server may say in all.
	maxReplies = 256 << 10
	// maxAddress is the longest address that there is (RFC 5321).
	maxAddress = 254
)

// Send implements Sender. The deadline of ctx holds for the whole conversation.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	if len(m.To) > maxAddress || strings.ContainsFunc(m.To, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return &Refused{errors.New("the recipient is not an address")}
	}
	ctx, cancel := context.WithTimeout(ctx, conversation)
	defer cancel()
	c, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("mail server: %w", err) // of the server or its settings: no fault of the message
	}
	defer c.Close()
	if err := c.Mail(s.from.Address); err != nil {
		return fmt.Errorf("mail server: %w", err)
	}
	if err := c.Rcpt(m.To); err != nil {
		return verdict(err)
	}
	w, err := c.Data()
	if err != nil {
		return verdict(err)
	}
	if _, err := w.Write(s.encode(m, time.Now())); err != nil {
		return verdict(err)
	}
	if err := w.Close(); err != nil {
		return verdict(err)
	}
	_ = c.Quit() // the message is the server's by now; to send it again would send it twice
	return nil
}

// verdict tells a refusal for good from one that may end.
func verdict(err error) error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code >= 500 {
		return &Refused{err}
	}
	return err
}

func (s *SMTP) connect(ctx context.Context) (*smtp.Client, error) {
	secure := s.opts.TLS
	if secure == nil {
		secure = &tls.Config{ServerName: s.host}
	}
	var d net.Dialer
	dialed, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = dialed.SetDeadline(deadline) // for TLS and every command
	}
	var conn net.Conn = &bounded{Conn: dialed, left: maxReplies}
	if s.opts.ImplicitTLS {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, s.host)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if err := s.prepare(c, secure); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// bounded is a connection that ends when the server has said too much: replies have no end of their own.
type bounded struct {
	net.Conn
	left int // bytes
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the server says more than belongs to a delivery")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// prepare makes the connection private where it can be and signs in. PlainAuth refuses to send a
// password over a connection that is neither encrypted nor local.
func (s *SMTP) prepare(c *smtp.Client, secure *tls.Config) error {
	if ok, _ := c.Extension("STARTTLS"); ok && !s.opts.ImplicitTLS {
		if err := c.StartTLS(secure); err != nil {
			return err
		}
	}
	if s.opts.User == "" {
		return nil
	}
	return c.Auth(smtp.PlainAuth("", s.opts.User, s.opts.Password, s.host))
}

// encode is the message as it goes over the wire.
func (s *SMTP) encode(m Message, now time.Time) []byte {
	to := mail.Address{Address: m.To}
	domain := s.from.Address[strings.LastIndexByte(s.from.Address, '@')+1:]
	var b strings.Builder
	for _, h := range [][2]string{
		{"From", s.from.String()},
		{"To", to.String()},
		{"Subject", mime.QEncoding.Encode("utf-8", m.Subject)},
		{"Date", now.Format(time.RFC1123Z)},
		{"Message-ID", "<" + rand.Text() + "@" + domain + ">"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
		{"Auto-Submitted", "auto-generated"},
	} {
		// A line break in a header would begin another one.
		b.WriteString(h[0] + ": " + strings.NewReplacer("\r", "", "\n", "").Replace(h[1]) + "\r\n")
	}
	b.WriteString("\r\n")
	q := quotedprintable.NewWriter(&b)
	_, _ = q.Write([]byte(strings.ReplaceAll(m.Text, "\n", "\r\n"))) // a strings.Builder takes everything
	_ = q.Close()
	return []byte(b.String())
}
