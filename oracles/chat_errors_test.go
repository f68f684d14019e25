package oracles

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
)

// TestErrors has every refusal surface as the client's error with all its fields.
func TestErrors(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	_, none := g.account(t, "none", "none")
	_, free := g.account(t, "free", "free")
	suspended := g.suspended(t)
	with := func(p openai.ChatCompletionNewParams, change func(*openai.ChatCompletionNewParams)) openai.ChatCompletionNewParams {
		change(&p)
		return p
	}
	tests := []struct {
		name, key   string
		p           openai.ChatCompletionNewParams
		status      int
		kind, param string
		says        string // part of the message
	}{
		{"temperature", g.owner, with(params(small, "Hi"), func(p *openai.ChatCompletionNewParams) { p.Temperature = openai.Float(3) }), 400, "invalid_request_error", "temperature", "2"},
		{"unknown model", g.owner, params("no/such-model", "Hi"), 400, "invalid_request_error", "model", "no/such-model"},
		{"no messages", g.owner, openai.ChatCompletionNewParams{Model: small, Messages: []openai.ChatCompletionMessageParamUnion{}}, 400, "invalid_request_error", "messages", "messages"},
		{"model without tools", g.owner, withTools(params(tiny, "Hi")), 400, "invalid_request_error", "tools", "tools"},
		{"refused upstream", g.owner, params(faked, script{Do: "fail", Status: 400}.String()), 400, "invalid_request_error", "", upMessage},
		{"unknown key", "service-0123456789", params(small, "Hi"), 401, "authentication_error", "", "key"},
		{"foreign key", "sk-0123456789", params(small, "Hi"), 401, "authentication_error", "", "service-"},
		{"no plan", none, params(large, "Hi"), 402, "payment_required", "model", "Basic"},
		{"no plan for tools", none, withTools(params(small, "Hi")), 402, "payment_required", "tools", "Basic"},
		{"low plan", free, params(large, "Hi"), 403, "permission_error", "model", "Basic"},
		{"low plan for tools", free, withTools(params(small, "Hi")), 403, "permission_error", "tools", "Basic"},
		{"not found", g.owner, params(small, "[[sandbox:error=404]]"), 404, "not_found_error", "", "404"},
		{"too large", g.owner, params(small, strings.Repeat("too much ", 4<<20)), 413, "request_too_large", "", "32 MiB"},
		{"suspended", suspended, params(small, "Hi"), 423, "account_suspended", "", "suspended"},
		{"rate limited", g.owner, params(small, "[[sandbox:error=429]]"), 429, "rate_limit_error", "", "429"},
		{"our fault", g.owner, params(small, "[[sandbox:error=500]]"), 500, "server_error", "", ""},
		{"unavailable", g.owner, params(small, "[[sandbox:error=503]]"), 503, "service_unavailable", "", "503"},
		{"unreachable", g.owner, params(stranded, "Hi"), 503, "service_unavailable", "", "reach"},
		{"upstream refuses us", g.owner, params(ailing, script{Do: "fail", Status: 401}.String()), 503, "service_unavailable", "", ""},
		// The first call opens the breaker of the only target, so the others may be answered without one.
		{"upstream is full", g.owner, params(ailing, script{Do: "fail", Status: 429}.String()), 503, "service_unavailable", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, g, tt.key)
			_, whole := c.Chat.Completions.New(soon(t), tt.p, option.WithMaxRetries(0))
			stream := c.Chat.Completions.NewStreaming(soon(t), tt.p, option.WithMaxRetries(0))
			for stream.Next() {
				t.Errorf("NewStreaming sent %s, want an error at once", stream.Current().RawJSON())
			}
			for how, err := range map[string]error{"New": whole, "NewStreaming": stream.Err()} {
				e, ok := errors.AsType[*openai.Error](err)
				if !ok {
					t.Errorf("%s = %v (%T), want the client's error", how, err, err)
					continue
				}
				if e.StatusCode != tt.status || e.Type != tt.kind || e.Param != tt.param || e.Code != strconv.Itoa(tt.status) || !strings.Contains(e.Message, tt.says) || e.Message == "" {
					t.Errorf("%s = %d %s, want status and code %d, type %s, param %q and a message with %q", how, e.StatusCode, e.RawJSON(), tt.status, tt.kind, tt.param, tt.says)
				}
				checkHeaders(t, e)
			}
		})
	}
}

// checkHeaders wants an error to have its id, and to say whether to try again.
func checkHeaders(t *testing.T, e *openai.Error) {
	t.Helper()
	h := e.Response.Header
	if h.Get("X-Request-Id") == "" {
		t.Errorf("status %d has no x-request-id", e.StatusCode)
	}
	wait, never := h.Get("Retry-After") != "" && h.Get("Retry-After-Ms") != "", h.Get("X-Should-Retry") == "false"
	wantWait, wantNever := e.StatusCode == 429 || e.StatusCode == 503, e.StatusCode < 429
	if wait != wantWait || never != wantNever {
		t.Errorf("status %d: a wait told %t, x-should-retry false %t; want %t and %t", e.StatusCode, wait, never, wantWait, wantNever)
	}
}

// TestRateLimit wants the plan's own limit to surface like any other, with what is left in the headers.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	id, key := g.account(t, "limited", "free")
	one := account.Limit(1)
	if err := g.admin.Call(t.Context(), "account.set-limits", admin.NewLimits{Actor: "test", Ref: id, Set: account.Overrides{RequestsPerMinute: &one}}, &admin.Account{}); err != nil {
		t.Fatalf("Call(account.set-limits) = %v", err)
	}
	c := newClient(t, g, key)
	if _, err := c.Chat.Completions.New(soon(t), params(small, "Hi")); err != nil {
		t.Fatalf("the first New = %v, want a reply", err)
	}
	_, err := c.Chat.Completions.New(soon(t), params(small, "Hi"), option.WithMaxRetries(0))
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.StatusCode != 429 || e.Type != "rate_limit_error" || e.Message == "" {
		t.Fatalf("the second New = %v, want status 429 and rate_limit_error", err)
	}
	checkHeaders(t, e)
	if got := e.Response.Header.Get("X-Ratelimit-Remaining-Requests"); got != "0" {
		t.Errorf("x-ratelimit-remaining-requests = %q, want 0", got)
	}
}

// TestNotFound wants unknown models and paths to be told as such.
func TestNotFound(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	c := newClient(t, g, g.owner)
	_, model := c.Models.Get(soon(t), "no/such-model")
	_, path := c.Moderations.New(soon(t), openai.ModerationNewParams{Input: openai.ModerationNewParamsInputUnion{OfString: openai.String("Hi")}})
	for what, err := range map[string]error{"Models.Get": model, "Moderations.New": path} {
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 404 || e.Type != "not_found_error" {
			t.Errorf("%s = %v, want status 404 and not_found_error", what, err)
		}
	}
}

// TestRetries counts what the client does by itself when it is refused.
func TestRetries(t *testing.T) {
	t.Parallel()
	g, up := startWithUpstream(t)
	t.Run("recovers", func(t *testing.T) {
		t.Parallel()
		for _, streaming := range []bool{false, true} {
			for _, status := range []int{429, 503} {
				key := "recovers-" + strconv.Itoa(status) + strconv.FormatBool(streaming)
				p := params(faked, script{Do: "fail", Key: key, Status: status, Times: 2}.String())
				c := newClient(t, g, g.owner)
				content := ""
				if streaming {
					s := follow(t, c, p)
					if s.err != nil {
						t.Fatalf("NewStreaming = %v, want an answer at the third attempt", s.err)
					}
					content = s.content
				} else {
					reply, err := c.Chat.Completions.New(soon(t), p)
					if err != nil {
						t.Fatalf("New = %v, want an answer at the third attempt", err)
					}
					content = reply.Choices[0].Message.Content
				}
				if content != strings.Join(said, "") || up.attempts(key) != 3 {
					t.Errorf("status %d twice, streamed %t = %q after %d attempts, want the answer after 3", status, streaming, content, up.attempts(key))
				}
			}
		}
	})
	for _, status := range []int{429, 503} {
		t.Run("gives up after "+strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			c := newClient(t, g, g.owner)
			_, err := c.Chat.Completions.New(soon(t), params(small, "[[sandbox:error="+strconv.Itoa(status)+"]]"))
			if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != status || c.transport.attempts.Load() != 3 {
				t.Fatalf("New = %v after %d attempts, want status %d after 3", err, c.transport.attempts.Load(), status)
			}
			// The gateway asks for a second; left to itself the client begins with half of that.
			if first := c.transport.sent[1].Sub(c.transport.sent[0]); first < time.Second {
				t.Errorf("the second attempt came after %s, want the second that was asked for", first)
			}
		})
	}
	t.Run("not after 4xx", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{400, 401, 402, 403, 404, 413, 423} {
			c := newClient(t, g, g.owner)
			_, err := c.Chat.Completions.New(soon(t), params(small, "[[sandbox:error="+strconv.Itoa(status)+"]]"))
			if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != status || c.transport.attempts.Load() != 1 {
				t.Errorf("New = %v after %d attempts, want status %d after 1", err, c.transport.attempts.Load(), status)
			}
		}
	})
}

// TestBrokenStreams wants a stream that fails after its start to surface as an error, never as an end.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	for _, tt := range []struct {
		name string
		p    openai.ChatCompletionNewParams
	}{
		{"sandbox", params(small, "[[sandbox:tokens=50]] [[sandbox:cut=20]]")},
		{"error event", params(faked, script{Do: "break"}.String())},
		{"cut", params(faked, script{Do: "cut"}.String())},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := follow(t, newClient(t, g, g.owner), withUsage(tt.p))
			e, ok := errors.AsType[*ssestream.StreamError](s.err)
			if !ok || !strings.Contains(e.Message, "service_unavailable") || !strings.Contains(e.Message, "503") {
				t.Errorf("NewStreaming = %v, want a stream error with service_unavailable and 503", s.err)
			}
			if s.err != nil && strings.Contains(s.err.Error(), upMessage) {
				t.Errorf("NewStreaming = %v, want nothing of the upstream's own words", s.err)
			}
			if s.content == "" || s.finish != "" {
				t.Errorf("NewStreaming sent %q and finish reason %q, want some text and no reason", s.content, s.finish)
			}
		})
	}
}

// TestHangUp wants the upstream's work to end with the caller's interest, at every moment of a call.
func TestHangUp(t *testing.T) {
	t.Parallel()
	g, up := startWithUpstream(t)
	check := func(t *testing.T, key string) {
		t.Helper()
		if !up.canceled(key) {
			t.Fatal("the upstream call went on without a caller")
		}
	}
	t.Run("close", func(t *testing.T) {
		t.Parallel()
		p, key := order(t, "hang")
		stream := newClient(t, g, g.owner).Chat.Completions.NewStreaming(soon(t), p)
		content := ""
		for content == "" && stream.Next() {
			content = stream.Current().Choices[0].Delta.Content
		}
		if content != said[0] {
			t.Fatalf("NewStreaming = %q, %v, want %q", content, stream.Err(), said[0])
		}
		up.hangs(key)
		stream.Close()
		check(t, key)
	})
	for _, streaming := range []bool{false, true} {
		t.Run("cancel streamed "+strconv.FormatBool(streaming), func(t *testing.T) {
			t.Parallel()
			p, key := order(t, "hang")
			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				c := newClient(t, g, g.owner)
				if !streaming {
					_, err := c.Chat.Completions.New(ctx, p)
					ended <- err
					return
				}
				stream := c.Chat.Completions.NewStreaming(ctx, p)
				for stream.Next() {
				}
				ended <- stream.Err()
			}()
			up.hangs(key)
			cancel()
			check(t, key)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the canceled call = %v, want context.Canceled", err)
			}
		})
	}
}
