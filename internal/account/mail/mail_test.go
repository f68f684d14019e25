package mail_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"sluice/internal/account/mail"
)

// server takes one message and returns its lines. It refuses the lines that begin with refuse.
func server(t *testing.T, refuse, reply string) (addr string, got func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan []string, 1)
	go func() {
		defer l.Close()
		conn, err := l.Accept()
		if err != nil {
			lines <- nil
			return
		}
		defer conn.Close()
		var all []string
		say := func(text string) { _, _ = io.WriteString(conn, text+"\r\n") }
		say("220 test")
		in, data := bufio.NewScanner(conn), false
		for in.Scan() {
			line := in.Text()
			if data && strings.HasPrefix(line, "..") {
				line = line[1:] // a single dot would end the message
			}
			all = append(all, line)
			switch {
			case data && in.Text() == ".":
				data = false
				say("250 taken")
			case data:
			case strings.HasPrefix(line, "EHLO"):
				say("250-test\r\n250 AUTH PLAIN")
			case refuse != "" && refuse != "QUIT" && strings.HasPrefix(line, refuse):
				say(cmp.Or(reply, "550 no"))
			case line == "DATA":
				data = true
				say("354 go on")
			case line == "QUIT":
				if refuse != "QUIT" {
					say("221 bye")
				}
				lines <- all
				return
			default:
				say("250 ok")
			}
		}
		lines <- all
	}()
	return l.Addr().String(), func() []string { return <-lines }
}

func TestSMTP(t *testing.T) {
	t.Parallel()
	addr, got := server(t, "", "")
	s, err := mail.NewSMTP(addr, "Sluice <no-reply@example.com>", nil)
	if err != nil {
		t.Fatal(err)
	}
	text := "Grüße\n\nhttps://x.example/link?token=" + strings.Repeat("A", 80) + "\n.\nend\n"
	if err := s.Send(t.Context(), mail.Message{To: "ana@example.com", Subject: "Bestätigen\r\nBcc: eve@example.com", Text: text}); err != nil {
		t.Fatalf("Send = %v", err)
	}
	all := got()
	joined := strings.Join(all, "\n")
	for _, want := range []string{"MAIL FROM:<no-reply@example.com>", "RCPT TO:<ana@example.com>"} {
		if !strings.Contains(joined, want) {
			t.Errorf("the server was not told %q:\n%s", want, joined)
		}
	}
	_, body, _ := strings.Cut(joined, "DATA\n")
	body = strings.TrimSuffix(body, ".\nQUIT")
	m, err := netmail.ReadMessage(strings.NewReader(strings.ReplaceAll(body, "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get("Bcc") != "" {
		t.Error("a line break in the subject made another header")
	}
	subject, _ := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if !strings.HasPrefix(subject, "Bestätigen") {
		t.Errorf("Subject = %q", subject)
	}
	back, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if plain := strings.ReplaceAll(string(back), "\r\n", "\n"); err != nil || plain != text {
		t.Errorf("text = %q, %v, want %q", plain, err, text)
	}
}

func TestSMTPRefused(t *testing.T) {
	t.Parallel()
	addr, got := server(t, "RCPT", "")
	s, err := mail.NewSMTP(addr, "no-reply@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), mail.Message{To: "ana@example.com"}); err == nil {
		t.Error("Send to a refused address = nil, want an error")
	}
	got()
	for _, bad := range [][2]string{{"no-port", "a@example.com"}, {"host:25", "not an address"}} {
		if _, err := mail.NewSMTP(bad[0], bad[1], nil); err == nil {
			t.Errorf("NewSMTP(%q, %q) = nil, want an error", bad[0], bad[1])
		}
	}
	gone, _ := mail.NewSMTP("127.0.0.1:1", "a@example.com", nil)
	if err := gone.Send(t.Context(), mail.Message{To: "b@example.com"}); err == nil {
		t.Error("Send through a server that is away = nil, want an error")
	}
}

// Mail servers expect TLS from the start on port 465 alone.
func TestImplicitTLS(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{"mail.example.com:465": true, "[::1]:465": true, "mail.example.com:587": false, "mail.example.com:1465": false} {
		s, err := mail.NewSMTP(addr, "no-reply@example.com", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := mail.ImplicitTLS(s); got != want {
			t.Errorf("ImplicitTLS(%s) = %v, want %v", addr, got, want)
		}
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := mail.NewLog(slog.New(slog.NewTextHandler(&out, nil))).Send(t.Context(), mail.Message{To: "ana@example.com", Text: "https://link"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "https://link") || !strings.Contains(out.String(), "ana@example.com") {
		t.Errorf("the log says %s, want the link and the address", &out)
	}
}

// A recipient who is refused permanently is not retried; a server with problems of its own is.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		refuse, reply string
		fails         bool
		refused       bool
	}{
		{"RCPT", "550 no such user", true, true},
		{"RCPT", "450 busy, come back", true, false},
		{"RCPT", "421 going down", true, false},
		{"DATA", "554 no", true, true},
		{"DATA", "451 later", true, false},
		{"MAIL", "550 not from you", true, false}, // the operator's setting
		{"QUIT", "", false, false},                // the message was taken
	} {
		addr, got := server(t, tt.refuse, tt.reply)
		s, err := mail.NewSMTP(addr, "no-reply@example.com", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Send(t.Context(), mail.Message{To: "ana@example.com"})
		if _, refused := errors.AsType[*mail.Refused](err); (err != nil) != tt.fails || refused != tt.refused {
			t.Errorf("Send with %q to %s = %v, refused for good: %t; want an error: %t, for good: %t", tt.reply, tt.refuse, err, refused, tt.fails, tt.refused)
		}
		got()
	}
	s, err := mail.NewSMTP("127.0.0.1:1", "no-reply@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"ana@example.com\r\nRCPT TO:<eve@example.com>", "ana@example.com\nX: y", "a b@example.com", strings.Repeat("a", 250) + "@example.com"} {
		if _, refused := errors.AsType[*mail.Refused](s.Send(t.Context(), mail.Message{To: to})); !refused {
			t.Errorf("Send to %q is tried, want it refused", to)
		}
	}
}

// A server that stops answering, or never stops, does not hold up a delivery beyond its deadline.
func TestSMTPDeadline(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(net.Conn){
		"silent":  func(net.Conn) {},
		"endless": func(c net.Conn) { endless(c) },
		"after the greeting": func(c net.Conn) {
			_, _ = io.WriteString(c, "220 test\r\n")
		},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			say(conn)
			_, _ = io.Copy(io.Discard, conn) // until the client gives up
		}()
		s, err := mail.NewSMTP(l.Addr().String(), "no-reply@example.com", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := s.Send(ctx, mail.Message{To: "ana@example.com"}); err == nil {
			t.Errorf("%s: Send = nil, want an error", name)
		}
		cancel()
		<-done
		l.Close()
	}
}

// endless is a greeting without an end.
func endless(c net.Conn) {
	for {
		if _, err := fmt.Fprintf(c, "220-%s\r\n", strings.Repeat("x", 500)); err != nil {
			return
		}
	}
}
