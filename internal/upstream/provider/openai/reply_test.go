package openai_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

// read opens the reply that the transport gives and returns its events, raw, and the error behind them.
func read(t *testing.T, body, contentType, reply string) (kinds []provider.Kind, raws []string, err error) {
	t.Helper()
	a := adapter(t, openai.Options{}, func(*http.Request) (*http.Response, error) {
		return providertest.Answer(contentType, iotest.OneByteReader(strings.NewReader(reply))), nil
	})
	in, err := a.Open(t.Context(), ask(t, body))
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	for {
		ev, err := in.Next()
		if err != nil {
			a.Wait()
			return kinds, raws, err
		}
		kinds, raws = append(kinds, ev.Kind), append(raws, string(ev.Raw))
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	const sse = "data: {\"a\":1}\n\ndata: {\"b\":2}\n\n"
	for name, tt := range map[string]struct {
		ask, contentType, reply string
		kind                    provider.Kind
		want                    string
	}{
		"stream":                     {streamed, eventStream, sse + "data: [DONE]\n\n", provider.Chunk, `{"a":1} {"b":2}`},
		"stream with a charset":      {streamed, "Text/Event-Stream;charset=utf-8", sse, provider.Chunk, `{"a":1} {"b":2}`},
		"stream without its mark":    {streamed, eventStream, sse, provider.Chunk, `{"a":1} {"b":2}`},
		"mark without a space":       {streamed, eventStream, sse + "data:[DONE]\n\ndata: {}\n\n", provider.Chunk, `{"a":1} {"b":2}`},
		"mark with spaces":           {streamed, eventStream, sse + "data:  [DONE] \n\ndata: {}\n\n", provider.Chunk, `{"a":1} {"b":2}`},
		"comments and empty data":    {streamed, eventStream, ": x\n\ndata:\n\ndata: {\"a\":1}\n\nid: 7\nevent: y\n\ndata: \n\n", provider.Chunk, `{"a":1}`},
		"nothing behind the mark":    {streamed, eventStream, "data: [DONE]\n\n" + sse, provider.Chunk, ``},
		"JSON for a stream":          {streamed, jsonBody, `{"a":1}`, provider.Whole, `{"a":1}`},
		"stream for a plain call":    {plain, eventStream, sse + "data: [DONE]\n\n", provider.Chunk, `{"a":1} {"b":2}`},
		"JSON":                       {plain, jsonBody, `{"a":1}`, provider.Whole, `{"a":1}`},
		"JSON without a type":        {plain, "", `{"a":1}`, provider.Whole, `{"a":1}`},
		"HTML that calls itself 200": {plain, "text/html", `<p>`, provider.Whole, `<p>`},
	} {
		kinds, raws, err := read(t, tt.ask, tt.contentType, tt.reply)
		if got := strings.Join(raws, " "); !errors.Is(err, io.EOF) || got != tt.want {
			t.Errorf("%s: %s, then %v, want %s, then EOF", name, got, err, tt.want)
		}
		for _, k := range kinds {
			if k != tt.kind {
				t.Errorf("%s: an event of kind %d, want %d", name, k, tt.kind)
			}
		}
	}
}

// endless is a body without end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestOversizeIsRefused(t *testing.T) {
	t.Parallel()
	body := &endless{}
	for name, tt := range map[string]struct {
		ask, contentType string
		length           int64
		most             int
	}{
		"event":                {streamed, eventStream, -1, 2 * provider.MaxEvent},
		"reply":                {plain, jsonBody, -1, provider.MaxReply + 1<<20},
		"reply known too long": {plain, jsonBody, provider.MaxReply + 1, 0},
	} {
		body.read = 0
		a := adapter(t, openai.Options{}, func(*http.Request) (*http.Response, error) {
			resp := providertest.Answer(tt.contentType, body)
			resp.ContentLength = tt.length
			return resp, nil
		})
		in, err := a.Open(t.Context(), ask(t, tt.ask))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Next(); !fault.Is(err, fault.Unavailable) || body.read > tt.most {
			t.Errorf("%s: Next() = %v after %d bytes, want a fault after %d at most", name, err, body.read, tt.most)
		}
		in.Close()
	}
}

func TestKnownLengthMustCome(t *testing.T) {
	t.Parallel()
	a := adapter(t, openai.Options{}, func(*http.Request) (*http.Response, error) {
		resp := providertest.Answer(jsonBody, strings.NewReader(`{"choices":[]}`))
		resp.ContentLength = 15
		return resp, nil
	})
	in, err := a.Open(t.Context(), ask(t, plain))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.Next(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("Next() = %v, want a cut reply", err)
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next() again = %v, want EOF", err)
	}
}

// A comment that arrives with an event must not keep the event back.
func TestReadyMeansReady(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	a := adapter(t, openai.Options{}, func(*http.Request) (*http.Response, error) { return providertest.Answer(eventStream, pr), nil })
	in, err := a.Open(t.Context(), ask(t, streamed))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(pw, "data: 1\n\ndata: 2\n\n: a comment\n\ndata:\n\n")
		_, _ = io.WriteString(pw, "data: 3\n\ndata: [DONE]\n\n")
		pw.Close()
	}()
	for i, want := range []bool{true, false, true} {
		if _, err := in.Next(); err != nil {
			t.Fatal(err)
		}
		if got := in.Ready(); got != want {
			t.Errorf("Ready() behind event %d = %t, want %t", i+1, got, want)
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next() at the end = %v, want EOF", err)
	}
	in.Close()
	a.Wait()
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	a := adapter(t, openai.Options{APIKey: "secret"}, func(r *http.Request) (*http.Response, error) {
		return nil, errors.New("dial tcp 10.0.0.1:443: no route to " + r.URL.String())
	})
	_, err := a.Open(t.Context(), ask(t, plain))
	f := fault.From(err)
	if f.Kind != fault.Unavailable || f.RetryAfter != time.Second || strings.Contains(f.Error(), "upstream.test") || strings.Contains(f.Message, "10.0.0.1") {
		t.Errorf("Open = %v, want a fault without the address", f)
	}
}

// silent is a body that says something and then nothing, until its call ends.
type silent struct {
	ctx  context.Context
	says io.Reader
}

func (s *silent) Read(p []byte) (int, error) {
	if n, err := s.says.Read(p); err == nil {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestSilence(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ ask, contentType, says string }{
		"stream":                {streamed, eventStream, "data: {}\n\n"},
		"stream from the start": {streamed, eventStream, ""},
		"reply":                 {plain, jsonBody, `{"choices":`},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pulse.New()
			go p.Run(t.Context())
			a := adapter(t, openai.Options{Pulse: p}, func(r *http.Request) (*http.Response, error) {
				return providertest.Answer(tt.contentType, &silent{r.Context(), strings.NewReader(tt.says)}), nil
			})
			start := time.Now()
			in, err := a.Open(t.Context(), ask(t, tt.ask))
			for err == nil {
				_, err = in.Next()
			}
			took := time.Since(start)
			if f := fault.From(err); f.Kind != fault.Unavailable || !strings.Contains(f.Message, "stopped answering") {
				t.Errorf("%s: ends with %v, want a stalled reply", name, err)
			}
			if took < provider.Silence || took > provider.Silence+2*time.Second {
				t.Errorf("%s: took %v, want %v", name, took, provider.Silence)
			}
			in.Close()
			if n := p.Watched(); n != 0 {
				t.Errorf("%s: %d replies are still watched", name, n)
			}
		})
	}
}

// dripping gives a byte now and then, as long as its call lives.
type dripping struct {
	ctx   context.Context
	says  io.Reader
	every time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.every):
		return d.says.Read(p[:1])
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// What comes slowly is not silent, be it only a comment.
func TestSlowIsNotSilent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ ask, contentType, says string }{
		{streamed, eventStream, ": wait\n\n: wait\n\ndata: {}\n\n"},
		{plain, jsonBody, `{"choices":[]}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pulse.New()
			go p.Run(t.Context())
			a := adapter(t, openai.Options{Pulse: p}, func(r *http.Request) (*http.Response, error) {
				return providertest.Answer(tt.contentType, &dripping{r.Context(), strings.NewReader(tt.says), time.Minute}), nil
			})
			in, err := a.Open(t.Context(), ask(t, tt.ask))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if _, err := in.Next(); err != nil {
				t.Errorf("Next() of %q, a byte a minute = %v, want an event", tt.says, err)
			}
		})
	}
}

// A refusal whose body does not come is a refusal nevertheless.
func TestSilentRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := adapter(t, openai.Options{}, func(r *http.Request) (*http.Response, error) {
			resp := providertest.Answer(jsonBody, &silent{r.Context(), strings.NewReader(`{"error":`)})
			resp.StatusCode = http.StatusTooManyRequests
			resp.Header.Set("Retry-After", "3")
			return resp, nil
		})
		start := time.Now()
		_, err := a.Open(t.Context(), ask(t, plain))
		if f := fault.From(err); f.Kind != fault.Unavailable || f.RetryAfter != 3*time.Second {
			t.Errorf("Open = %v, want the refusal", err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("Open took %v, want a few seconds", took)
		}
	})
}

func TestLongRefusalIsCut(t *testing.T) {
	t.Parallel()
	body := &endless{}
	a := adapter(t, openai.Options{}, func(*http.Request) (*http.Response, error) {
		resp := providertest.Answer(jsonBody, io.MultiReader(bytes.NewReader([]byte(`{"error":{"message":"`)), body))
		resp.StatusCode = http.StatusBadRequest
		return resp, nil
	})
	_, err := a.Open(t.Context(), ask(t, plain))
	if f := fault.From(err); f.Kind != fault.Invalid || body.read > 1<<20 {
		t.Errorf("Open = %v after %d bytes, want a refusal after a few", err, body.read)
	}
}
