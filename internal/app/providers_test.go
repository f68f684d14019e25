package app

import (
	"net/http"
	"testing"

	"sluice/internal/config"
	"sluice/internal/provider/gemini"
	"sluice/internal/provider/openai"
)

// Every kind that a configuration may name has something that speaks to it, at the address that the
// adapter knows, too.
func TestEveryKindHasAnAdapter(t *testing.T) {
	t.Parallel()
	for _, kind := range config.Kinds() {
		c := config.Provider{Name: "p", Kind: kind, BaseURL: config.Address(kind), Region: "us-east-1", AccessKeyID: "id"}
		if a, err := newAdapter(&c, "key", http.DefaultTransport, nil); err != nil || a == nil {
			t.Errorf("newAdapter(kind %s) = %v, %v, want an adapter", kind, a, err)
		}
		if preset, ok := openai.PresetOf(kind, ""); ok && preset.BaseURL != c.BaseURL {
			t.Errorf("Address(%s) = %s, want %s", kind, c.BaseURL, preset.BaseURL)
		}
	}
	if got := config.Address("gemini"); got != gemini.BaseURL {
		t.Errorf("Address(gemini) = %s, want %s", got, gemini.BaseURL)
	}
}
