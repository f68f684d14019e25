package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// refusalCase is a reply with an error status, and the fault that it must become. Only errors that the caller has
// caused reach the caller; everything else is Unavailable (docs/api.md#upstream-errors).
type refusalCase struct {
	name    string
	refusal Refusal
	kind    fault.Kind
	after   time.Duration // the fault's RetryAfter
	message string        // part of what the caller reads; empty if that must have nothing of the upstream's
}

// refused returns the case of a status whose message must not reach the caller. The message contains the key, so
// that the suite notices if any of it leaks.
func refused(status int, kind fault.Kind) refusalCase {
	c := refusalCase{name: fmt.Sprintf("status %d", status), kind: kind, refusal: Refusal{Status: status, Message: fmt.Sprintf("Secret reason %d, key %s.", status, Key)}}
	if kind == fault.Unavailable {
		c.after = time.Second
	}
	return c
}

// refusals are the statuses that upstreams send, with bodies that a vendor writes and bodies that a proxy in front
// of it writes. 400, 413 and 422 are the caller's own fault; the others are ours or the upstream's.
var refusals = []refusalCase{
	{
		name: "status 400", kind: fault.Invalid, message: "max_tokens is too large: 999999.",
		refusal: Refusal{Status: 400, Message: "max_tokens is too large: 999999."},
	},
	{
		name: "status 422", kind: fault.Invalid, message: "tools.0.name: too long",
		refusal: Refusal{Status: 422, Message: "tools.0.name: too long"},
	},
	{
		name: "status 413", kind: fault.Invalid, message: "The request is too large.",
		refusal: Refusal{Status: 413, Message: "The request is too large."},
	},
	{
		name: "status 400 with our key in it", kind: fault.Invalid, message: "Do not send … here.",
		refusal: Refusal{Status: 400, Message: "Do not send " + Key + " here."},
	},
	{name: "status 400 with garbage", kind: fault.Invalid, refusal: Refusal{Status: 400, Body: "\x00\xff{"}},
	{name: "status 400 with HTML", kind: fault.Invalid, refusal: Refusal{Status: 400, Body: "<html><h1>400 Bad Request</h1>nginx at internal.example.com</html>", Header: map[string]string{"Content-Type": "text/html"}}},
	refused(401, fault.Unavailable),
	refused(402, fault.Unavailable),
	refused(403, fault.Unavailable),
	refused(404, fault.Unavailable),
	refused(408, fault.Unavailable),
	refused(429, fault.Unavailable),
	{name: "status 429 with Retry-After", kind: fault.Unavailable, after: 7 * time.Second, refusal: Refusal{Status: 429, Message: "Slow down.", Header: map[string]string{"Retry-After": "7"}}},
	{name: "status 429 with milliseconds", kind: fault.Unavailable, after: 250 * time.Millisecond, refusal: Refusal{Status: 429, Message: "Slow down.", Header: map[string]string{"Retry-After": "1", "Retry-After-Ms": "250"}}},
	refused(500, fault.Unavailable),
	refused(502, fault.Unavailable),
	refused(503, fault.Unavailable),
	{name: "status 503 with garbage", kind: fault.Unavailable, after: time.Second, refusal: Refusal{Status: 503, Body: "upstream connect error"}},
	{name: "redirect", kind: fault.Unavailable, after: time.Second, refusal: Refusal{Status: 307, Message: "Elsewhere.", Header: map[string]string{"Location": "/elsewhere"}}},
}

// refuse plays a refusal, once for a stream and once for a call that is not streamed. Nothing of our key and of the
// upstream's insides may reach the caller, and no key the log.
func (h *Harness) refuse(t *testing.T, c refusalCase) {
	for _, stream := range []bool{true, false} {
		p, call := h.start(t, &Script{Refusal: &c.refusal}, stream, "")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		in, err := p.Adapter.Open(ctx, call)
		if err == nil {
			err = Collect(t, in).Err
			in.Close()
		}
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok {
			t.Fatalf("Open(stream %t) = %v, want a fault", stream, err)
		}
		if f.Kind != c.kind || f.RetryAfter != c.after {
			t.Errorf("Open(stream %t) = %v after %v, want %v after %v", stream, f.Kind, f.RetryAfter, c.kind, c.after)
		}
		if !strings.Contains(f.Message, c.message) {
			t.Errorf("the caller reads %q, want %q in it", f.Message, c.message)
		}
		// Words of the refusals above that only the upstream could have written.
		for _, secret := range []string{Key, "Secret", "http", "html", "nginx", "example.com", "\x00"} {
			if strings.Contains(f.Message, secret) {
				t.Errorf("the caller reads %q, want nothing of %q", f.Message, secret)
			}
		}
		if strings.Contains(f.Error(), Key) {
			t.Errorf("the log reads %q, want no key in it", f.Error())
		}
		cancel()
		p.Close()
	}
}

// blame plays a refusal with every status of an error. Only 400, 413 and 422 are the caller's fault, whatever the body
// says, and say nothing about the upstream. All others count, unless the body says more; that is package provider's
// own test (docs/providers/routing.md#whose-fault-a-failure-is).
func (h *Harness) blame(t *testing.T) {
	if h.Computes {
		t.Skip("this adapter has no upstream: it fails only when it is told to")
	}
	for status := 400; status < 600; status++ {
		c := Refusal{Status: status, Message: "Nothing is known about it."}
		p, call := h.start(t, &Script{Refusal: &c}, status%2 == 0, "")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		in, err := p.Adapter.Open(ctx, call)
		if err == nil {
			err = Collect(t, in).Err
			in.Close()
		}
		kind := fault.Unavailable
		if status == 400 || status == 413 || status == 422 {
			kind = fault.Invalid
		}
		if counts := provider.Counts(err); !fault.Is(err, kind) || counts != (kind == fault.Unavailable) {
			t.Errorf("status %d = %v, counts against the upstream: %t; want %v and %t", status, err, counts, kind, !counts)
		}
		cancel()
		p.Close()
	}
}

// troubleCase is a reply that goes wrong on the way.
type troubleCase struct {
	name   string
	script Script
	stream bool
	// complete says that the reply had ended before it went wrong, so it counts as a whole one.
	complete bool
}

// some is the beginning of a reply, without a finish reason.
var some = []provider.Event{text("Once upon"), text(" a time there was")}

// whole is a complete reply.
var whole = []provider.Event{text("The end."), finish(chat.FinishStop), figures(9, 0, 3, 0)}

// troubles are the replies that go wrong on the way, streamed and not.
var troubles = []troubleCase{
	{name: "stream cut", stream: true, script: Script{Events: some, Then: Cut}},
	{name: "stream reset", stream: true, script: Script{Events: some, Then: Reset}},
	{name: "stream closed early", stream: true, script: Script{Events: some, Then: Closed}},
	{name: "stream cut before anything", stream: true, script: Script{Then: Cut}},
	{name: "stream cut behind its end", stream: true, complete: true, script: Script{Events: whole, Then: Cut}},
	{name: "garbage in a stream", stream: true, script: Script{Events: some, Then: Garbage}},
	{name: "stalled stream", stream: true, script: Script{Events: some, Then: Stall}},
	{name: "stream stalled before anything", stream: true, script: Script{Then: Stall}},
	{name: "reply cut", script: Script{Events: whole, Then: Cut}},
	{name: "reply reset", script: Script{Events: whole, Then: Reset}},
	{name: "garbage in place of a reply", script: Script{Events: whole, Then: Garbage}},
	{name: "stalled reply", script: Script{Events: whole, Then: Stall}},
}

// trouble plays a reply that goes wrong. It must never look like a complete one, and must have no text that the
// upstream did not send.
func (h *Harness) trouble(t *testing.T, c troubleCase) {
	p, call := h.start(t, &c.script, c.stream, "")
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got Reply
	in, err := p.Adapter.Open(ctx, call)
	if err != nil {
		got.Err = err
	} else {
		got = Collect(t, in)
		defer in.Close()
	}
	if ctx.Err() != nil {
		t.Fatalf("the reply did not end within %v", patience)
	}
	if c.complete {
		if got.Err != nil && got.Finish == "" {
			t.Errorf("the reply ends with %v before its finish reason", got.Err)
		}
		return
	}
	if !provider.Counts(got.Err) && !h.Computes {
		t.Errorf("the reply ends with %v, want one that counts against the upstream", got.Err)
	}
	if !fault.Is(got.Err, fault.Unavailable) || got.Finish != "" {
		t.Errorf("the reply ends with %v and finish reason %q, want a fault and none", got.Err, got.Finish)
	}
	if want := Expected(c.script.Events).Text; !strings.HasPrefix(want, got.Text) {
		t.Errorf("the text is %q, want a beginning of %q", got.Text, want)
	}
}

// abandonment is a caller who leaves before the reply is complete.
type abandonment struct {
	name   string
	then   Trouble // what the upstream does meanwhile
	stream bool
	close  bool // the caller closes the stream, and does not cancel its context
}

// abandonments are the moments at which a caller may leave.
var abandonments = []abandonment{
	{name: "cancel before the reply", then: Wait, stream: true},
	{name: "cancel in a stream", then: Stall, stream: true},
	{name: "close in a stream", then: Stall, stream: true, close: true},
	{name: "cancel in a reply", then: Stall},
}

// abandon plays a caller who leaves. The call must end at once, the upstream must notice it, and no goroutine may
// be left behind. Otherwise every caller who hangs up would cost a connection and the tokens of a reply that
// nobody reads (docs/api.md#streams).
func (h *Harness) abandon(t *testing.T, c abandonment) {
	ignore := goleak.IgnoreCurrent()
	script := Script{Events: whole, Then: c.then}
	if c.stream {
		script.Events = some
	}
	p, call := h.start(t, &script, c.stream, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// opened is closed when the caller has what it waits for before it leaves.
	opened := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		in, err := p.Adapter.Open(ctx, call)
		if err == nil && c.stream && c.then != Wait {
			_, err = in.Next() // the first event has come, the others wait
		}
		close(opened)
		for err == nil && !c.close {
			_, err = in.Next()
		}
		if in != nil {
			in.Close()
		}
		ended <- err
	}()
	switch {
	case c.then == Wait && p.Asked != nil:
		p.Asked() // waits until the upstream has been asked
	case c.then != Wait:
		<-opened
	}
	if !c.close {
		cancel()
	}
	select {
	case err := <-ended:
		if !c.close && (err == nil || errors.Is(err, io.EOF)) {
			t.Errorf("the reply ends with %v, want an error", err)
		}
		if f, ok := errors.AsType[*fault.Fault](err); ok && strings.Contains(f.Message, "stopped answering") {
			t.Errorf("the reply ends with %v, want the caller to end it before its silence does", err)
		}
	case <-time.After(patience):
		t.Fatal("the call did not end with its caller")
	}
	if p.Gone != nil {
		select {
		case <-p.Gone:
		case <-time.After(patience):
			t.Fatal("the upstream never noticed that its caller left")
		}
	}
	p.Close()
	goleak.VerifyNone(t, ignore)
}
