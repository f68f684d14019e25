package gemini_test

import (
	"flag"
	"net/http"
	"testing"

	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/providertest"
)

var update = flag.Bool("update", false, "write what went up and what callers got in testdata/*.txtar anew")

func TestTranscripts(t *testing.T) {
	t.Parallel()
	providertest.Transcripts(t, *update, func(_ string, wire http.RoundTripper) (provider.Adapter, error) {
		return gemini.New("", &gemini.Options{APIKey: providertest.Key, Transport: wire})
	}, "X-Goog-Api-Key")
}
