package provider_test

import (
	"testing"

	"sluice/internal/upstream/provider"
)

func TestObjectArguments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "{}", " ": "{}", `{"a":1}`: `{"a":1}`, `{"a":`: `{"arguments":"{\"a\":"}`, "7": `{"arguments":"7"}`, `[1]`: `{"arguments":"[1]"}`,
	} {
		if got := string(provider.ObjectArguments(in)); got != want {
			t.Errorf("ObjectArguments(%q) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"": "{}", "null": "{}", `{ "a": 1 }`: `{"a":1}`, "{": "{}"} {
		if got := provider.ArgumentsText([]byte(in)); got != want {
			t.Errorf("ArgumentsText(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestImageData(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"data:image/png;base64,AAAA": {"image/png", "AAAA"},
		"DATA:image/JPG;base64,BB==": {"image/jpeg", "BB=="},
		"https://example.com/a,b":    {},
		"":                           {},
	} {
		mediaType, data, ok := provider.ImageData(url)
		if mediaType != want[0] || data != want[1] || ok != (want[0] != "") {
			t.Errorf("ImageData(%q) = %q, %q, %t, want %q", url, mediaType, data, ok, want)
		}
	}
}
