package bedrock_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/providertest"
)

var keys = bedrock.Keys{AccessKeyID: providertest.Key, SecretAccessKey: "secret-4711", SessionToken: "token-0815"}

// wire answers every request with a body.
type wire string

func (w wire) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(string(w)))}, nil
}

// asking is a call of a model.
func asking(t testing.TB, model string, stream bool) *provider.Call {
	t.Helper()
	body := `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`
	if stream {
		body = `{"model":"m","messages":[{"role":"user","content":"Hello"}],"stream":true}`
	}
	req, err := chat.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &provider.Call{Request: req, Upstream: model, Thinks: true}
}

// open asks a model, which answers with the body.
func open(t testing.TB, body string) provider.Stream {
	t.Helper()
	a, err := bedrock.New("us-east-1", keys, &bedrock.Options{Transport: wire(body)})
	if err != nil {
		t.Fatal(err)
	}
	in, err := a.Open(context.Background(), asking(t, "m", true))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// long is a reply with everything in it.
var long = writeStream(providertest.Everything("tooluse_1"))

// TestCutAnywhere ends a stream behind each of its frames, and inside of them: only with its stop
// reason it is complete.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for n := range len(long) + 1 {
		for _, inside := range []int{0, 3, 20} {
			body := strings.Join(long[:n], "")
			if n < len(long) {
				body += long[n][:inside]
			}
			in := open(t, body)
			got := providertest.Collect(t, in)
			in.Close()
			stopped := n >= len(long)-1 // the figures may miss
			if (got.Finish != "") != stopped {
				t.Errorf("%d of %d frames and %d bytes: finish %q, want one: %t", n, len(long), inside, got.Finish, stopped)
			}
			if complete := stopped && (inside == 0 || n == len(long)); (got.Err == nil) != complete {
				t.Errorf("%d of %d frames and %d bytes: %v, want it complete: %t", n, len(long), inside, got.Err, complete)
			}
			if got.Err != nil && !fault.Is(got.Err, fault.Unavailable) {
				t.Errorf("%d of %d frames and %d bytes: %v, want a fault", n, len(long), inside, got.Err)
			}
		}
	}
}

// What is written to a cache is counted by how long it is kept, where the reply says so.
func TestCacheWrites(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]chat.Usage{
		``: {Prompt: 17, Completion: 2, CacheWrite: 7}, // no Claude, so for how long is not known
		`,"cacheDetails":[{"ttl":"1h","inputTokens":3},{"ttl":"5m","inputTokens":4}]`: {Prompt: 17, Completion: 2, CacheWrite5m: 4, CacheWrite1h: 3},
	} {
		in := open(t, rawFrame("event", ":event-type", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hi"}}`)+
			rawFrame("event", ":event-type", "messageStop", `{"stopReason":"end_turn"}`)+
			rawFrame("event", ":event-type", "metadata", `{"usage":{"inputTokens":10,"outputTokens":2,"cacheWriteInputTokens":7`+more+`}}`))
		got := providertest.Collect(t, in)
		in.Close()
		if got.Err != nil || got.Usage == nil || *got.Usage != want {
			t.Errorf("%s: %+v, %v, want %+v", more, got.Usage, got.Err, want)
		}
	}
}

// TestKeysStaySecret has every kind of failure repeat our keys.
func TestKeysStaySecret(t *testing.T) {
	t.Parallel()
	said := providertest.Encode(object{"message": "No: " + keys.AccessKeyID + ", " + keys.SecretAccessKey + " and " + keys.SessionToken})
	for _, kind := range []string{"validationException", "throttlingException", "internalServerException", "serviceUnavailableException", "modelStreamErrorException", "newException"} {
		in := open(t, rawFrame("exception", ":exception-type", kind, said))
		_, err := in.Next()
		in.Close()
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok {
			t.Fatalf("%s: %v, want a fault", kind, err)
		}
		for _, secret := range []string{keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken} {
			if strings.Contains(f.Error(), secret) {
				t.Errorf("%s: %v, want no %s in it", kind, err, secret)
			}
		}
		if caused := kind == "validationException"; caused != (f.Kind == fault.Invalid) {
			t.Errorf("%s: %v, want it to be the caller's: %t", kind, f.Kind, caused)
		}
	}
}

// TestSignature signs what reached the upstream once more, and must come to the same.
func TestSignature(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"amazon.nova-pro-v1:0", "arn:aws:bedrock:us-east-1:1:application-inference-profile/a b", "plain"} {
		for _, stream := range []bool{true, false} {
			asked := make(chan string, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- verify(r) }))
			a, err := bedrock.New("eu-west-3", keys, &bedrock.Options{BaseURL: server.URL + "/"})
			if err != nil {
				t.Fatal(err)
			}
			if in, err := a.Open(t.Context(), asking(t, model, stream)); err == nil {
				in.Close()
			}
			if problem := <-asked; problem != "" {
				t.Errorf("%s: %s", model, problem)
			}
			a.Close()
			server.Close()
		}
	}
}

// verify says what is wrong with the signature of a request.
func verify(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err.Error()
	}
	again := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, ContentLength: r.ContentLength, Header: http.Header{"Content-Type": r.Header["Content-Type"]}}
	again.URL.Host = r.Host
	sum := sha256.Sum256(body)
	creds := aws.Credentials{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken}
	if err := v4.NewSigner().SignHTTP(context.Background(), creds, again, hex.EncodeToString(sum[:]), "bedrock", "eu-west-3", at); err != nil {
		return err.Error()
	}
	got, want := r.Header.Get("Authorization"), again.Header.Get("Authorization")
	if got != want || r.Header.Get("X-Amz-Security-Token") != keys.SessionToken {
		return "the signature is " + got + ", want " + want
	}
	return ""
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ region, base string }{{"", ""}, {"us-east-1", "::"}, {"us-east-1", "/path"}} {
		if _, err := bedrock.New(tt.region, keys, &bedrock.Options{BaseURL: tt.base}); err == nil {
			t.Errorf("New(%q, %q) succeeds, want an error", tt.region, tt.base)
		}
	}
}

// FuzzEvent feeds events of all sorts. None may panic, and none is complete without a stop reason.
func FuzzEvent(f *testing.F) {
	for _, kind := range []string{"contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"} {
		f.Add(kind, `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"b"}},"delta":{"text":"x"},"stopReason":"end_turn","usage":{"inputTokens":-1}}`)
		f.Add(kind, `{"contentBlockIndex":-1,"delta":{"reasoningContent":{"redactedContent":"EmwK","signature":"s"}}}`)
		f.Add(kind, `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{"}}}`)
		f.Add(kind, `null`)
	}
	f.Fuzz(func(t *testing.T, kind, payload string) {
		if len(kind) > 1<<10 {
			return // no header is as long
		}
		one := rawFrame("event", ":event-type", kind, payload)
		in := open(t, one+one+one)
		defer in.Close()
		got := providertest.Collect(t, in)
		if got.Err == nil && kind != "messageStop" {
			t.Errorf("%s %s is taken for a complete reply", kind, payload)
		}
		if u := got.Usage; u != nil && (u.Prompt < 0 || u.Cached < 0 || u.Completion < 0) {
			t.Errorf("usage %+v, want no negative figures", u)
		}
	})
}

// FuzzFrames feeds bytes. None may panic, and none but a signed frame is a reply.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(strings.Join(long, "")))
	f.Add([]byte(long[0][:7]))
	f.Add([]byte("this is no frame at all, but long enough for one"))
	f.Fuzz(func(t *testing.T, body []byte) {
		in := open(t, string(body))
		defer in.Close()
		got := providertest.Collect(t, in)
		if got.Err == nil && !strings.Contains(string(body), "stopReason") {
			t.Errorf("%q is taken for a complete reply", body)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	providertest.BenchmarkStream(b, writeStream, func(body string) provider.Stream { return open(b, body) })
}
