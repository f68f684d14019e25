package front

import (
	"fmt"
	"testing"
)

// A mark follows from the name alone, and providers of a catalog can be told apart by it.
func TestMakerOf(t *testing.T) {
	t.Parallel()
	// These must not change: people know them.
	for name, want := range map[string]string{"openai": "O h3 0 0", "anthropic": "A h7 5 0", "": "? h7 3 0"} {
		m := makerOf(name)
		got := m.letter + " " + m.class
		for i, s := range shapes {
			if s == m.shape {
				got += fmt.Sprint(" ", i)
			}
		}
		for i, s := range details {
			if s == m.detail {
				got += fmt.Sprint(" ", i)
			}
		}
		if got != want {
			t.Errorf("makerOf(%q) = %s, want %s", name, got, want)
		}
	}
	if makerOf("OpenAI ") != makerOf("openai") {
		t.Error("the mark depends on how the name is written")
	}
	for name, letter := range map[string]string{"…x": "X", "élan": "É", "01": "0", "—": "?"} {
		if got := makerOf(name).letter; got != letter {
			t.Errorf("makerOf(%q) has the letter %q, want %q", name, got, letter)
		}
	}
	seen := map[maker]string{}
	for _, name := range []string{"openai", "anthropic", "google", "mistral", "meta", "deepseek", "qwen", "xai", "cohere", "groq", "together", "fireworks", "bedrock", "azure", "vertex", "ollama", "vllm", "sandbox", "perplexity", "moonshot", "zhipu", "nvidia", "microsoft", "amazon", "ai21", "cerebras", "openrouter"} {
		m := makerOf(name)
		if other := seen[m]; other != "" {
			t.Errorf("%s and %s have the same mark", name, other)
		}
		seen[m] = name
	}
}
