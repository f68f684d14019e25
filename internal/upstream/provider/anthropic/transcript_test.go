package anthropic_test

import (
	"flag"
	"net/http"
	"testing"

	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/providertest"
)

var update = flag.Bool("update", false, "write what went up and what callers got in testdata/*.txtar anew")

func TestTranscripts(t *testing.T) {
	t.Parallel()
	providertest.Transcripts(t, *update, func(_ string, wire http.RoundTripper) (provider.Adapter, error) {
		return anthropic.New("", &anthropic.Options{APIKey: providertest.Key, Transport: wire})
	}, "X-Api-Key", "Anthropic-Version")
}
