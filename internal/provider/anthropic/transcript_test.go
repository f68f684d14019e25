package anthropic_test

import (
	"flag"
	"net/http"
	"testing"

	"sluice/internal/provider"
	"sluice/internal/provider/anthropic"
	"sluice/internal/provider/providertest"
)

var update = flag.Bool("update", false, "write what went up and what callers got in testdata/*.txtar anew")

func TestTranscripts(t *testing.T) {
	t.Parallel()
	providertest.Transcripts(t, *update, func(_ string, wire http.RoundTripper) (provider.Adapter, error) {
		return anthropic.New("", &anthropic.Options{APIKey: providertest.Key, Transport: wire})
	}, "X-Api-Key", "Anthropic-Version")
}
