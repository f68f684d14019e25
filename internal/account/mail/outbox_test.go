package mail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account/mail"
)

// post is a sender whose behavior the tests control.
type post struct {
	mu   sync.Mutex
	do   map[string]func(ctx context.Context) error // by recipient; nil: deliver
	sent []string                                   // subjects
	made int                                        // attempts
}

func (p *post) Send(ctx context.Context, m mail.Message) error {
	p.mu.Lock()
	p.made++
	do := p.do[m.To]
	p.mu.Unlock()
	if do != nil {
		if err := do(ctx); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m.Subject)
	return nil
}

func (p *post) has(subjects ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range subjects {
		if !slices.Contains(p.sent, s) {
			return false
		}
	}
	return true
}

func (p *post) attempts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// record is a log that may be read while it is written.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// deliver runs a test with an outbox that delivers through p.
func deliver(t *testing.T, p *post, test func(t *testing.T, o *mail.Outbox, log *record)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log record
		o := mail.NewOutbox(p, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { o.Run(ctx); close(done) }()
		test(t, o, &log)
		stop()
		<-done
	})
}

// after lets time pass and lets everything happen that is due.
func after(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

var errLater = errors.New("451 later")

func fails(times int) func(context.Context) error {
	return func(context.Context) error {
		if times--; times >= 0 {
			return errLater
		}
		return nil
	}
}

func never(context.Context) error { return errLater }

func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func refuses(context.Context) error { return &mail.Refused{Err: errors.New("550 no such user")} }

func TestRetries(t *testing.T) {
	t.Parallel()
	p := &post{do: map[string]func(context.Context) error{"slow@x": fails(3), "never@x": never}}
	deliver(t, p, func(t *testing.T, o *mail.Outbox, log *record) {
		o.Post(mail.Message{To: "slow@x", Subject: "slow"})
		o.Post(mail.Message{To: "never@x", Subject: "never"})
		after(5 * time.Minute)
		if !p.has("slow") {
			t.Error("a mail that failed three times was not sent after five minutes")
		}
		if strings.Contains(log.String(), "could not be sent") {
			t.Errorf("given up too early: %s", log)
		}
		after(time.Hour)
		if made := p.attempts(); made != 4+6 || !strings.Contains(log.String(), "subject=never") {
			t.Errorf("%d attempts, log %s; want 4 and 6, and the one that was given up named", made, log)
		}
	})
}

// A recipient whose server hangs or fails does not delay the mail of others, nor do several of
// them.
func TestBadRecipients(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(context.Context) error{"hangs": hangs, "fails": never, "refuses": refuses} {
		p := &post{do: map[string]func(context.Context) error{"bad@x": bad}}
		deliver(t, p, func(t *testing.T, o *mail.Outbox, _ *record) {
			o.Post(mail.Message{To: "bad@x", Subject: "bad"})
			var want []string
			for i := range 20 {
				want = append(want, fmt.Sprint("good ", i))
				o.Post(mail.Message{To: fmt.Sprintf("good%d@x", i), Subject: want[i]})
			}
			after(time.Second)
			if !p.has(want...) {
				t.Errorf("%s: after a second not all but the bad one were sent", name)
			}
		})
	}
	p := &post{do: map[string]func(context.Context) error{}}
	for i := range 100 {
		p.do[fmt.Sprintf("bad%d@x", i)] = never
	}
	deliver(t, p, func(t *testing.T, o *mail.Outbox, _ *record) {
		for i := range 100 {
			o.Post(mail.Message{To: fmt.Sprintf("bad%d@x", i), Subject: "bad"})
		}
		after(time.Second)
		o.Post(mail.Message{To: "good@x", Subject: "good"})
		after(time.Second)
		if !p.has("good") {
			t.Error("a hundred bad recipients hold the mail of a good one")
		}
	})
}

// Mail to one recipient stays in order, and one that is refused for good makes way for the next.
func TestOrder(t *testing.T) {
	t.Parallel()
	p := &post{do: map[string]func(context.Context) error{"slow@x": fails(2)}}
	once := true
	p.do["refused@x"] = func(ctx context.Context) error {
		if once {
			once = false
			return refuses(ctx)
		}
		return nil
	}
	p.do["REFUSED@x"] = p.do["refused@x"]
	deliver(t, p, func(t *testing.T, o *mail.Outbox, log *record) {
		for _, s := range []string{"one", "two", "three"} {
			o.Post(mail.Message{To: "slow@x", Subject: s})
		}
		o.Post(mail.Message{To: "REFUSED@x", Subject: "first"}) // the same mailbox, as far as we know
		o.Post(mail.Message{To: "refused@x", Subject: "second"})
		after(time.Second)
		if p.has("first") || !p.has("second") || !strings.Contains(log.String(), "subject=first") {
			t.Errorf("sent %v, log %s; want the first given up at once and the second sent", p.sent, log)
		}
		after(time.Minute)
		var order []string
		for _, s := range p.sent {
			if s != "second" {
				order = append(order, s)
			}
		}
		if !slices.Equal(order, []string{"one", "two", "three"}) {
			t.Errorf("sent in the order %v", order)
		}
	})
}

// The outbox is bounded, and what fails makes room for what is new.
func TestBounds(t *testing.T) {
	t.Parallel()
	p := &post{do: map[string]func(context.Context) error{}}
	for i := range 1000 {
		p.do[fmt.Sprintf("bad%d@x", i)] = never
	}
	deliver(t, p, func(t *testing.T, o *mail.Outbox, log *record) {
		for i := range 1000 {
			o.Post(mail.Message{To: fmt.Sprintf("bad%d@x", i), Subject: "bad"})
		}
		after(time.Second)
		if log.String() != "" {
			t.Errorf("1000 messages: %s, want all to wait", log)
		}
		for i := range 10 {
			o.Post(mail.Message{To: fmt.Sprintf("good%d@x", i), Subject: fmt.Sprint("good ", i)})
		}
		after(time.Second)
		if n := strings.Count(log.String(), "it has failed before"); !p.has("good 0", "good 9") || n < 1 || n > 10 {
			t.Errorf("the good ones were sent: %t, and %d of the failed ones dropped; want them to make room", p.has("good 0", "good 9"), n)
		}
		p.mu.Lock()
		p.do["hangs@x"] = hangs
		p.mu.Unlock()
		for range 25 {
			o.Post(mail.Message{To: "hangs@x", Subject: "one too many"})
		}
		if got := strings.Count(log.String(), "too many are waiting for this recipient"); got != 5 {
			t.Errorf("%d of 25 messages to one recipient were dropped, want 5", got)
		}
		o.Post(mail.Message{To: "large@x", Text: strings.Repeat("x", 1<<20)})
		if !strings.Contains(log.String(), "too large") {
			t.Errorf("a message of 1 MiB: %s, want it dropped", log)
		}
	})
	// Where nothing has failed, the new one is dropped.
	var log record
	o := mail.NewOutbox(p, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 1001 {
		o.Post(mail.Message{To: fmt.Sprintf("a%d@x", i), Subject: fmt.Sprint("number ", i)})
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "number 1000") {
		t.Errorf("the log says %s, want the last one dropped", &log)
	}
	o = mail.NewOutbox(p, slog.New(slog.NewTextHandler(io.Discard, nil)))
	for i := range 100 {
		o.Post(mail.Message{To: fmt.Sprintf("a%d@x", i), Text: strings.Repeat("x", 250<<10)})
	}
	if got := mail.Waiting(o); got != (16<<20)/(250<<10) {
		t.Errorf("%d messages of 250 KiB wait, want 16 MiB of them", got)
	}
}

// Messages that are waiting when the process stops are tried once, and not forever.
func TestStop(t *testing.T) {
	t.Parallel()
	p := &post{do: map[string]func(context.Context) error{"bad@x": never}}
	synctest.Test(t, func(t *testing.T) {
		o := mail.NewOutbox(p, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		o.Post(mail.Message{To: "bad@x"})
		o.Post(mail.Message{To: "late@x", Subject: "late"})
		o.Run(ctx)
		if !p.has("late") || p.attempts() != 2 {
			t.Errorf("%d attempts, sent %v when it stopped; want each tried once", p.attempts(), p.sent)
		}
	})
	all := &post{do: map[string]func(context.Context) error{}}
	for i := range 500 {
		all.do[fmt.Sprintf("a%d@x", i)] = hangs
	}
	synctest.Test(t, func(t *testing.T) {
		var log record
		o := mail.NewOutbox(all, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		for i := range 500 {
			o.Post(mail.Message{To: fmt.Sprintf("a%d@x", i)})
		}
		began := time.Now()
		o.Run(ctx)
		if took := time.Since(began); took > 10*time.Second || strings.Count(log.String(), "\n") != 500 {
			t.Errorf("stopping with 500 that hang took %v and named %d of them, want 10 s and all", took, strings.Count(log.String(), "\n"))
		}
	})
}

// Look tells since when no mail gets through. A recipient that the server refuses is no reason.
func TestLook(t *testing.T) {
	t.Parallel()
	p := &post{do: map[string]func(context.Context) error{
		"down@example.com":    fails(3),
		"refused@example.com": func(context.Context) error { return &mail.Refused{Err: errors.New("550 no")} },
	}}
	deliver(t, p, func(t *testing.T, o *mail.Outbox, _ *record) {
		look := func(age time.Duration, message string) {
			t.Helper()
			if f := o.Look(t.Context()); f.Failed || f.Age != age || !strings.HasPrefix(f.Message, message) || message == "" && f.Message != "" {
				t.Errorf("Look = %+v, want an age of %s and %q", f, age, message)
			}
		}
		look(0, "")
		o.Post(mail.Message{To: "down@example.com", Subject: "one"})
		after(10 * time.Second)
		look(10*time.Second, "no mail was delivered for 10s; 1 wait")
		o.Post(mail.Message{To: "refused@example.com", Subject: "two"})
		after(time.Second)
		look(0, "")
		after(10 * time.Minute)
		look(0, "")
	})
}
