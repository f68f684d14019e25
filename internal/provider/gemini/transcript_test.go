package gemini_test

import (
	"flag"
	"net/http"
	"testing"

	"sluice/internal/provider"
	"sluice/internal/provider/gemini"
	"sluice/internal/provider/providertest"
)

var update = flag.Bool("update", false, "write what went up and what callers got in testdata/*.txtar anew")

func TestTranscripts(t *testing.T) {
	t.Parallel()
	providertest.Transcripts(t, *update, func(_ string, wire http.RoundTripper) (provider.Adapter, error) {
		return gemini.New("", &gemini.Options{APIKey: providertest.Key, Transport: wire})
	}, "X-Goog-Api-Key")
}
