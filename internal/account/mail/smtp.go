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

// SMTPOptions are the optional settings of NewSMTP. The zero value is the default.
type SMTPOptions struct {
	User     string // if empty, there is no authentication
	Password string
	// TLS replaces the TLS configuration in tests. If nil, the server's certificate is verified
	// against the system's roots.
	TLS *tls.Config
}

// SMTP is a Sender that delivers through a mail server. Each message uses a connection of its own.
type SMTP struct {
	addr string
	host string
	// implicitTLS means TLS from the first byte. Otherwise STARTTLS is used if the server offers it, and it is
	// required before a password is sent.
	implicitTLS bool
	from        mail.Address
	opts        SMTPOptions
}

// tlsPort is the port on which mail servers expect TLS from the start.
const tlsPort = "465"

// NewSMTP returns a sender that uses the server at addr (host:port). The from address may include a
// display name: "Sluice <no-reply@example.com>".
func NewSMTP(addr, from string, opts *SMTPOptions) (*SMTP, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("mail server %q: %w", addr, err)
	}
	sender, err := mail.ParseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("sender %q: %w", from, err)
	}
	s := &SMTP{addr: addr, host: host, implicitTLS: port == tlsPort, from: *sender}
	if opts != nil {
		s.opts = *opts
	}
	return s, nil
}

const (
	// conversation bounds one delivery, from dialing to the last reply.
	conversation = 30 * time.Second
	// maxReplies bounds everything the server sends during one delivery, in bytes.
	maxReplies = 256 << 10
	// maxAddress is the maximum length of an address (RFC 5321).
	maxAddress = 254
)

// Send implements Sender. The deadline of ctx applies to the whole conversation.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	// Spaces and control characters could end the RCPT command early and smuggle in another one.
	if len(m.To) > maxAddress || strings.ContainsFunc(m.To, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return &Refused{errors.New("the recipient is not a valid address")}
	}
	ctx, cancel := context.WithTimeout(ctx, conversation)
	defer cancel()
	c, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("mail server: %w", err) // the server or its settings are at fault, not the message, so it is retried
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
	_ = c.Quit() // the server has accepted the message; a retry after an error here would send it twice
	return nil
}

// verdict turns a permanent error of the server (5xx) into a Refused. Others, such as 4xx, may
// succeed later.
func verdict(err error) error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code >= 500 {
		return &Refused{err}
	}
	return err
}

// connect dials the server, negotiates TLS and signs in. The caller closes the client.
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
		_ = dialed.SetDeadline(deadline) // applies to the TLS handshake and to every command
	}
	var conn net.Conn = &bounded{Conn: dialed, left: maxReplies}
	if s.implicitTLS {
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

// bounded is a connection that fails once the server has sent too much. Package smtp itself does
// not limit the length of a reply.
type bounded struct {
	net.Conn
	left int // bytes
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the server's replies are too long")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// prepare starts TLS if the server offers it, and signs in. PlainAuth refuses to send a password
// over a connection that is neither encrypted nor local.
func (s *SMTP) prepare(c *smtp.Client, secure *tls.Config) error {
	if ok, _ := c.Extension("STARTTLS"); ok && !s.implicitTLS {
		if err := c.StartTLS(secure); err != nil {
			return err
		}
	}
	if s.opts.User == "" {
		return nil
	}
	return c.Auth(smtp.PlainAuth("", s.opts.User, s.opts.Password, s.host))
}

// encode returns the message in its wire format: headers and a quoted-printable body.
func (s *SMTP) encode(m Message, now time.Time) []byte {
	to := mail.Address{Address: m.To}
	domain := s.from.Address[strings.LastIndexByte(s.from.Address, '@')+1:]
	var b strings.Builder
	headers := [][2]string{
		{"From", s.from.String()},
		{"To", to.String()},
		{"Subject", mime.QEncoding.Encode("utf-8", m.Subject)},
		{"Date", now.Format(time.RFC1123Z)},
		{"Message-ID", "<" + rand.Text() + "@" + domain + ">"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
		{"Auto-Submitted", "auto-generated"},
	}
	if m.Unsubscribe != "" { // RFC 8058: mail programs show a button that posts to it
		headers = append(headers, [2]string{"List-Unsubscribe", "<" + m.Unsubscribe + ">"}, [2]string{"List-Unsubscribe-Post", "List-Unsubscribe=One-Click"})
	}
	for _, h := range headers {
		// A line break inside a header would start another header, so remove it.
		b.WriteString(h[0] + ": " + strings.NewReplacer("\r", "", "\n", "").Replace(h[1]) + "\r\n")
	}
	b.WriteString("\r\n")
	q := quotedprintable.NewWriter(&b)
	_, _ = q.Write([]byte(strings.ReplaceAll(m.Text, "\n", "\r\n"))) // writing to a strings.Builder never fails
	_ = q.Close()
	return []byte(b.String())
}
