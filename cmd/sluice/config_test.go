package main

import (
	"os"
	"testing"

	"sluice/internal/app/config"
)

// TestConfigurationPage fails if a setting has changed and the page was not written again.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil || string(text) != config.Docs() {
		t.Errorf("docs/configuration.md is not what \"sluice config docs\" prints (%v): run go generate ./cmd/sluice", err)
	}
}
