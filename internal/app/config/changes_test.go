package config

import (
	"strings"
	"testing"

	"sluice/internal/kit/buildinfo"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	openai := []Provider{{Kind: "openai", BaseURL: "https://api.openai.com/v1"}}
	for name, tt := range map[string]struct {
		config Config
		before string
		want   string
	}{
		"nothing that changed":    {Config{Database: "sqlite"}, "0.1.0", ""},
		"OpenAI":                  {Config{Database: "sqlite", Providers: openai}, "0.2.0", "providers[].api"},
		"OpenAI, decided":         {Config{Database: "sqlite", Providers: []Provider{{Kind: "openai", BaseURL: "https://api.openai.com/v1", API: "chat"}}}, "0.2.0", ""},
		"compatible with OpenAI":  {Config{Database: "sqlite", Providers: []Provider{{Kind: "openai", BaseURL: "http://127.0.0.1:1/v1"}}}, "0.2.0", ""},
		"the same version":        {Config{Database: "sqlite", Providers: openai}, "0.3.0", ""},
		"the same, in progress":   {Config{Database: "sqlite", Providers: openai}, "0.3.0-dev", ""},
		"an unknown version":      {Config{Database: "sqlite", Providers: openai}, "", "providers[].api"},
		"PostgreSQL and a bucket": {Config{Database: "postgres://a/b", Blob: Blob{Kind: "s3"}}, "0.2.0", "node_address blob.region"},
		"their addresses are set": {Config{Database: "postgres://a/b", NodeAddress: "a:1", Blob: Blob{Kind: "s3", Region: "eu"}}, "0.2.0", ""},
		"two versions at once":    {Config{Database: "sqlite", Providers: []Provider{{API: "responses"}, {Kind: "azure"}}}, "0.1.0", "providers[].allow providers[].api"},
	} {
		var got []string
		for _, text := range tt.config.Changes(tt.before) {
			setting, _, _ := strings.Cut(text, ": since ")
			got = append(got, setting)
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: Changes(%q) = %q, want %q", name, tt.before, got, tt.want)
		}
	}
	// "sluice config docs" must explain what a change names.
	for _, ch := range changes {
		if _, err := DocsOf(ch.setting); err != nil {
			t.Errorf("a change of %s: %v", ch.version, err)
		}
		if len(numbers(ch.version)) != 3 || strings.Compare(ch.version, buildinfo.Release) > 0 {
			t.Errorf("a change has the version %s, which is not released", ch.version)
		}
	}
}
