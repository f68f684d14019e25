package inference

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
)

// ample is time enough to count a prompt on a slow machine, with the race detector.
const ample = 5 * time.Minute

// spy is the tokenizer, and how many bytes it was given.
type spy struct{ bytes int }

func (s *spy) count(text string) int {
	s.bytes += len(text)
	return tokens.Count(text)
}

// sampled is the most that a sample gives the tokenizer.
const sampled = (samplePieces+1)*(sampleBytes+16) + (roughPieces+1)*(roughBytes+16)

// huge are prompts of many kinds, far longer than any window, as the insides of JSON strings.
func huge(bytes int) map[string]string {
	base64 := make([]byte, bytes)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range base64 {
		base64[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[r.IntN(64)]
	}
	fill := func(s string) string { return strings.Repeat(s, bytes/len(s)) }
	return map[string]string{
		"English":          fill("The water rises, and the gate holds it back until the morning comes. "),
		"a table":          fill(`2026-11-15,48213,0.75,EUR\n`),
		"spaces":           fill(" "),
		"lines of spaces":  fill(strings.Repeat(" ", 127) + `\n`),
		"one letter":       fill("a"),
		"base64":           string(base64),
		"Chinese":          fill("水位上升闸门将其挡住直到早晨来临"),
		"Chinese, escaped": fill(`\u6c34\u4f4d\u4e0a\u5347\u95f8\u95e8\u5c06\u5176\u6321\u4f4f`),
		"letters, escaped": fill(`\u0061\u0062\u0063\u0020`),
		"emoji":            fill("😀🫠"),
		"punctuation":      fill("-=+()[]{}"),
		"line breaks":      fill(`\n`),
	}
}

// TestHugePromptsCostNothing refuses what is far too long with a sample at most.
func TestHugePromptsCostNothing(t *testing.T) {
	t.Parallel()
	for name, content := range huge(8 << 20) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tokenizer spy
			s := size{req: parse(t, `"`+content+`"`, ""), counting: counting{tokenizer.count, ample}}
			m := &catalog.Model{ID: "m", ContextLength: 8192, MaxOutput: 100}
			if err := s.check(m); !fault.Is(err, fault.Invalid) {
				t.Errorf("check = %v, want a 400", err)
			}
			if tokenizer.bytes > sampled {
				t.Errorf("the tokenizer was given %d bytes, want at most %d", tokenizer.bytes, sampled)
			}
		})
	}
}

// TestSample holds samples of long prompts against the count.
func TestSampleIsClose(t *testing.T) {
	t.Parallel()
	mixed := strings.Builder{}
	for _, content := range []string{"English", "a table", "base64", "Chinese", "lines of spaces"} {
		mixed.WriteString(huge(25 << 10)[content])
	}
	for name, content := range map[string]string{
		"English": huge(100 << 10)["English"], "a table": huge(100 << 10)["a table"], "base64": huge(100 << 10)["base64"],
		"Chinese, escaped": huge(100 << 10)["Chinese, escaped"], "mixed": mixed.String(),
	} {
		s := size{req: parse(t, `"`+content+`"`, ""), counting: counting{patience: ample}}
		about := s.sample()
		if err := s.count(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if about < s.exact*4/5 || about > s.exact*5/4 || s.floor > s.exact {
			t.Errorf("%s: sampled %d, floor %d, counted %d, want them close", name, about, s.floor, s.exact)
		}
	}
}

// TestEstimate holds the estimates of long prompts, for which little may be counted, against the count.
func TestEstimate(t *testing.T) {
	t.Parallel()
	for name, content := range huge(200 << 10) {
		var tokenizer spy
		s := size{req: parse(t, `"`+content+`"`, ""), counting: counting{tokenizer.count, ample}}
		about := s.estimate()
		if most := (roughPieces + 1) * (roughBytes + 16); tokenizer.bytes > most {
			t.Errorf("%s: estimated with %d bytes counted, want at most %d", name, tokenizer.bytes, most)
		}
		if err := s.count(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		// Four bytes for a token are the least that is reserved, whatever the text is.
		if about < s.exact*3/4 || about > max(s.exact*4/3, s.req.PromptBytes()/4+100) {
			t.Errorf("%s: estimated %d, counted %d, want them close", name, about, s.exact)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words, most int
		want        verdict
		free        bool // without the tokenizer
	}{
		{100, 1000, fits, true},
		{9900, 10_000, unsure, false},
		{9993, 10_000, unsure, false},
		{12_000, 10_000, exceeds, false}, // its words are more than that
		{6000, 10_000, fits, false},
		{300, 1000, unsure, true}, // small: counted at once
	} {
		var tokenizer spy
		s := size{req: parse(t, words(tt.words), ""), counting: counting{tokenizer.count, ample}}
		if got := s.within(tt.most); got != tt.want || tt.free && tokenizer.bytes > 0 || tokenizer.bytes > sampled {
			t.Errorf("%d words within %d = %d with %d bytes counted, want %d", tt.words, tt.most, got, tokenizer.bytes, tt.want)
		}
		if tt.want != unsure {
			continue
		}
		if err := s.count(t.Context(), tt.most); err != nil {
			t.Fatal(err)
		}
		want := decide(tt.words+7 <= tt.most)
		if got := s.within(tt.most); got != want {
			t.Errorf("%d words within %d = %d once counted, want %d", tt.words, tt.most, got, want)
		}
	}
}

// TestCountIsBounded: however long the prompt, what is counted of it is bounded, and ends with the caller.
func TestCountIsBounded(t *testing.T) {
	t.Parallel()
	text := huge(maxCounted + 1<<20)["English"]
	var tokenizer spy
	s := size{req: parse(t, `"`+text+`"`, ""), counting: counting{tokenizer.count, ample}}
	if err := s.count(t.Context(), 0); err != nil || s.exact != 0 || !s.settled {
		t.Errorf("count = %v, exact %d, want a sample to decide", err, s.exact)
	}
	if most := (finePieces + 1) * (sampleBytes + 16); tokenizer.bytes > most {
		t.Errorf("the tokenizer was given %d bytes, want at most %d", tokenizer.bytes, most)
	}
	for _, limit := range []int{100_000, 10_000_000} {
		if got, want := s.within(limit), decide(limit > 1_000_000); got != want {
			t.Errorf("within(%d) = %d, want %d", limit, got, want)
		}
	}

	tokenizer.bytes = 0
	s = size{req: parse(t, `"`+text[:maxCounted]+`"`, ""), counting: counting{tokenizer.count, ample}}
	if err := s.count(t.Context(), 10_000); err != nil || s.within(10_000) != exceeds {
		t.Errorf("count up to 10000 = %v, within %d", err, s.within(10_000))
	}
	if tokenizer.bytes > 2*tokens.Block {
		t.Errorf("the tokenizer was given %d bytes to find more than 10000 tokens", tokenizer.bytes)
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	tokenizer.bytes = 0
	s = size{req: parse(t, `"`+text[:maxCounted]+`"`, ""), counting: counting{tokenizer.count, ample}}
	if err := s.count(gone, 0); !errors.Is(err, context.Canceled) || tokenizer.bytes > 0 {
		t.Errorf("count for a caller who left = %v with %d bytes", err, tokenizer.bytes)
	}
}

type noBooks struct{}

func (noBooks) Ready() error            { return nil }
func (noBooks) Record(usage.Settlement) {}

// TestCountingComesLast: a prompt near the window's edge is counted only for a caller who may call now, and
// what is refused then takes nothing.
func TestCountingComesLast(t *testing.T) {
	t.Parallel()
	const window = 50_000
	c, err := catalog.New([]catalog.Model{{ID: "m", Plan: account.Basic, RequestMilli: 1000, ContextLength: window, MaxOutput: 100, Sandbox: true}})
	if err != nil {
		t.Fatal(err)
	}
	limits := account.BuiltinPlans()[account.Basic].Limits
	over := window + 100
	req := parse(t, words(over), "")
	for name, tt := range map[string]struct {
		plan   account.Plan
		spent  bool
		status int
		counts bool
	}{
		"no plan":                 {account.None, false, http.StatusPaymentRequired, false},
		"past the allowance":      {account.Basic, true, http.StatusTooManyRequests, false},
		"within it":               {account.Basic, false, http.StatusBadRequest, true},
		"none and past, the same": {account.None, true, http.StatusPaymentRequired, false},
	} {
		var tokenizer spy
		ledger := admission.NewMemory(nil)
		l := New(admission.New(ledger, noBooks{}, nil), nil, &Options{CountPatience: ample})
		l.counting.tokenize = tokenizer.count
		if tt.spent {
			ledger.Take("acc", limits, admission.Cost{RequestMilli: int64(limits.RequestsPerMinute) * 1000})
		}
		before := ledger.Peek("acc", limits)
		call := Call{ID: "id", Start: time.Now(), Caller: auth.Caller{Account: &account.Account{ID: "acc", Plan: tt.plan}}, Limits: limits, Request: req}
		// Words of one token: the floor shows that the prompt is too long. Of Chinese only a count does.
		for kind, r := range map[string]*chat.Request{"words": req, "letters": parse(t, `"`+strings.Repeat("水位上升闸门", over/5)+`"`, "")} {
			tokenizer.bytes = 0
			call.Request = r
			err := l.Complete(t.Context(), httptest.NewRecorder(), Models{Catalog: c}, &call)
			status := fault.From(err).Kind.Status()
			if kind == "words" {
				if status != http.StatusBadRequest || tokenizer.bytes > sampled {
					t.Errorf("%s: words: status %d with %d bytes counted, want 400 by a sample and a floor", name, status, tokenizer.bytes)
				}
				continue
			}
			if status != tt.status || (tokenizer.bytes > sampled) != tt.counts || tokenizer.bytes > maxCounted+sampled {
				t.Errorf("%s: letters: status %d with %d bytes counted, want %d, counted: %t (%v)", name, status, tokenizer.bytes, tt.status, tt.counts, err)
			}
		}
		after := ledger.Peek("acc", limits)
		if fmt.Sprint(after.Requests.Used, after.Tokens.Used) != fmt.Sprint(before.Requests.Used, before.Tokens.Used) || ledger.Running() != map[bool]int64{true: 1}[tt.spent] {
			t.Errorf("%s: used %+v with %d running after refusals, want what was used before: %+v", name, after, ledger.Running(), before)
		}
	}
}

// TestCountingEndsWithTheCaller: a caller who leaves while the prompt is counted is not answered, and nothing
// more is counted for it.
func TestCountingEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(l *Line, ctx context.Context, m Models, call *Call) error{
		"completion": func(l *Line, ctx context.Context, m Models, call *Call) error {
			return l.Complete(ctx, httptest.NewRecorder(), m, call)
		},
		"route": func(l *Line, ctx context.Context, m Models, call *Call) error {
			_, err := l.Explain(ctx, http.Header{}, m, call)
			return err
		},
		"count": func(l *Line, ctx context.Context, m Models, call *Call) error {
			_, err := l.CountPrompt(ctx, http.Header{}, m, call)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			countingEnds(t, send)
		})
	}
}

func countingEnds(t *testing.T, send func(l *Line, ctx context.Context, m Models, call *Call) error) {
	c, err := catalog.New([]catalog.Model{{ID: "m", Plan: account.Free, RequestMilli: 1000, ContextLength: 50_000, MaxOutput: 100, Sandbox: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ledger := admission.NewMemory(nil)
	l := New(admission.New(ledger, noBooks{}, nil), nil, &Options{CountPatience: ample})
	pieces := 0
	l.counting.tokenize = func(text string) int {
		if len(text) > sampleBytes+16 {
			pieces++
			cancel()
		}
		return tokens.Count(text)
	}
	call := Call{ID: "id", Start: time.Now(), Caller: auth.Caller{Account: &account.Account{ID: "acc"}}, Limits: account.BuiltinPlans()[account.Basic].Limits, Request: parse(t, `"`+strings.Repeat("水位上升闸门", 10_000)+`"`, "")}
	if err := send(l, ctx, Models{Catalog: c}, &call); !errors.Is(err, relay.ErrGone) || ledger.Running() != 0 || pieces != 1 {
		t.Errorf("a call whose caller left = %v with %d running and %d pieces counted, want ErrGone after one piece", err, ledger.Running(), pieces)
	}
}

// TestCountingIsRationed: an account that keeps sending prompts near the edge has only so many counted in a
// minute. The next minute, and other accounts, are not concerned.
func TestCountingIsRationed(t *testing.T) {
	t.Parallel()
	c, err := catalog.New([]catalog.Model{{ID: "m", Plan: account.Free, RequestMilli: 1000, ContextLength: 150_000, MaxOutput: 100, Sandbox: true}})
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	l := New(admission.New(admission.NewMemory(nil), noBooks{}, nil), nil, &Options{CountPatience: ample})
	l.counting.tokenize = func(text string) int {
		if len(text) > sampleBytes+16 {
			counted += len(text)
		}
		return len(text) / 3
	}
	req := parse(t, `"`+strings.Repeat("水位上升闸门", 27_000)+`"`, "") // 162,000 of these tokens
	send := func(id string, at time.Time) {
		t.Helper()
		call := Call{ID: "id", Start: at, Caller: auth.Caller{Account: &account.Account{ID: id}}, Limits: account.BuiltinPlans()[account.Basic].Limits, Request: req}
		if err := l.Complete(t.Context(), httptest.NewRecorder(), Models{Catalog: c}, &call); !fault.Is(err, fault.Invalid) {
			t.Fatalf("Complete = %v, want a 400", err)
		}
	}
	start := time.Unix(1_800_000_000, 0)
	for range 100 {
		send("one", start)
	}
	if counted == 0 || counted > mostCounted {
		t.Errorf("%d bytes were counted for one account in a minute, want at most %d", counted, mostCounted)
	}
	for _, tt := range []struct {
		id string
		at time.Time
	}{{"two", start}, {"one", start.Add(time.Minute)}} {
		counted = 0
		if send(tt.id, tt.at); counted == 0 {
			t.Errorf("nothing was counted for %s at %v", tt.id, tt.at)
		}
	}
}
