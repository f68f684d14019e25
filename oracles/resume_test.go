package oracles

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sluice/examples/resume"
	"sluice/internal/operate/admin"
)

// breaking is a transport whose bodies break after so many bytes, each time a few more.
type breaking struct{ bytes, posts int }

func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		b.posts++
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		b.bytes += 97
		resp.Body = &brokenBody{resp.Body, b.bytes}
	}
	return resp, err
}

type brokenBody struct {
	io.ReadCloser
	left int
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("the connection broke")
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// OpenAI's Go library over the helper in examples/resume: a stream whose connection breaks again and again is read whole,
// and charged once.
func TestResume(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	read := func(transport http.RoundTripper) (text string, tokens int64) {
		t.Helper()
		c := openai.NewClient(option.WithBaseURL(g.url), option.WithAPIKey(g.owner), option.WithHTTPClient(&http.Client{Transport: transport}), option.WithMaxRetries(0))
		s := c.Chat.Completions.NewStreaming(t.Context(), withUsage(params(small, "Write a paragraph about sluices.")))
		for s.Next() {
			chunk := s.Current()
			if len(chunk.Choices) > 0 {
				text += chunk.Choices[0].Delta.Content
			}
			tokens += chunk.Usage.CompletionTokens
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		return text, tokens
	}
	want, tokens := read(http.DefaultTransport)
	if want == "" || tokens == 0 {
		t.Fatalf("the stream = %q, %d tokens", want, tokens)
	}
	calls := int64(1)
	for bytes := 0; bytes < 2000; bytes += 113 {
		b := &breaking{bytes: bytes}
		if got, n := read(&resume.Transport{Base: b}); got != want || n != tokens || b.posts != 1 {
			t.Errorf("cut after %d bytes = %q, %d tokens, %d calls, want %q, %d, 1", bytes, got, n, b.posts, want, tokens)
		}
		calls++
	}
	var used admin.Usage
	if err := g.admin.Call(t.Context(), "usage", admin.UsageQuery{Ref: "owner@localhost", Days: 1, By: "model"}, &used); err != nil || used.Totals.Requests != calls || used.Totals.CompletionTokens != calls*tokens {
		t.Errorf("the usage = %+v, %v, want %d calls of %d tokens", used.Totals, err, calls, tokens)
	}
}
