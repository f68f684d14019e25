package bedrock_test

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/providertest"
)

var update = flag.Bool("update", false, "write what went up and what callers got in testdata/*.txtar anew")

// TestTranscripts plays the files. A frame of a stream is a line in them: the type of its event, or
// exception and its type, and the payload.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	providertest.Transcripts(t, *update, func(_ string, wire http.RoundTripper) (provider.Adapter, error) {
		return bedrock.New("us-east-1", bedrock.Keys{AccessKeyID: providertest.Key, SecretAccessKey: "secret-4711"}, &bedrock.Options{Transport: framed{wire}})
	})
}

// framed makes the lines of a stream into frames.
type framed struct{ wire http.RoundTripper }

func (f framed) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.wire.RoundTrip(r)
	if err != nil || resp.Header.Get("Content-Type") != "application/vnd.amazon.eventstream" {
		return resp, err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var frames bytes.Buffer
	for line := range strings.Lines(string(text)) {
		kind, payload, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "exception":
			kind, payload, _ = strings.Cut(payload, " ")
			frames.WriteString(rawFrame("exception", ":exception-type", kind, payload))
		case "error":
			frames.WriteString(rawFrame("error", ":error-message", payload, ""))
		default:
			frames.WriteString(rawFrame("event", ":event-type", kind, payload))
		}
	}
	resp.Body = io.NopCloser(&frames)
	return resp, nil
}
