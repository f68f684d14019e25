package mail_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/mail"
)

// server takes one message and returns its lines.
func server(t *testing.T, refuse string) (addr string, got func() []string) {
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
			case refuse != "" && strings.HasPrefix(line, refuse):
				say("550 no")
			case line == "DATA":
				data = true
				say("354 go on")
			case line == "QUIT":
				say("221 bye")
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
	addr, got := server(t, "")
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
	addr, got := server(t, "RCPT")
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

// flaky fails so many times before it sends.
type flaky struct {
	fails int
	sent  []string
}

func (f *flaky) Send(_ context.Context, m mail.Message) error {
	if f.fails > 0 {
		f.fails--
		return errors.New("not now")
	}
	f.sent = append(f.sent, m.To)
	return nil
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &flaky{fails: 2}
		o := mail.NewOutbox(f, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { o.Run(ctx); close(done) }()
		o.Post(mail.Message{To: "one"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(f.sent) != 1 {
			t.Errorf("sent %v after two failures, want one", f.sent)
		}
		f.fails = 4
		o.Post(mail.Message{To: "two", Subject: "lost"})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(f.sent) != 1 || !strings.Contains(log.String(), "lost") {
			t.Errorf("sent %v, log %s; want the second given up and named", f.sent, &log)
		}
		stop()
		<-done
	})
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		o := mail.NewOutbox(f, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		o.Post(mail.Message{To: "late"})
		o.Run(ctx)
		if len(f.sent) != 1 {
			t.Errorf("sent %v when it stopped, want what waited", f.sent)
		}
	})
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
