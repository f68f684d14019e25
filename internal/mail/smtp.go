package mail

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
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

// Send implements Sender.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	c, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("mail server: %w", err)
	}
	defer c.Close()
	if err := c.Mail(s.from.Address); err != nil {
		return err
	}
	if err := c.Rcpt(m.To); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(s.encode(m, time.Now())); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return c.Quit()
}

func (s *SMTP) connect(ctx context.Context) (*smtp.Client, error) {
	secure := s.opts.TLS
	if secure == nil {
		secure = &tls.Config{ServerName: s.host}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
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
