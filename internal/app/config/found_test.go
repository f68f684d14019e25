package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFound(t *testing.T) {
	t.Parallel()
	env := []string{"OPENAI_API_KEY=sk-canary-one", "ANTHROPIC_API_KEY=sk-canary-two", "GROQ_API_KEY=", "HOME=/"}
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"nothing configured":         {"", []string{"openai", "anthropic"}},
		"one of them configured":     {"providers: [{name: mine, kind: openai}]\n", []string{"anthropic"}},
		"the name taken":             {"providers: [{name: openai, kind: vllm, base_url: 'http://localhost:1/v1'}]\n", []string{"anthropic"}},
		"turned off":                 {"discover: false\n", nil},
		"a model at one of them":     {"models: [{id: x, provider: openai, upstream: gpt-4o, plan: free, context_length: 10, max_output: 5}]\n", []string{"openai", "anthropic"}},
		"all of that, and turned on": {"discover: true\nproviders: [{name: a, kind: openai}, {name: b, kind: anthropic}]\n", nil},
	} {
		c, problem := loadText(t, tt.text, env...)
		if problem != "" {
			t.Errorf("%s: %s", name, problem)
			continue
		}
		var got []string
		for _, f := range c.Found() {
			got = append(got, f.Name)
			if f.Kind != f.Name || !strings.HasPrefix(f.APIKey.Reveal(), "sk-canary") || f.Timeouts.Connect == 0 || !strings.HasSuffix(f.Variable, "_API_KEY") {
				t.Errorf("%s: found %+v", name, f)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: found %v, want %v", name, got, tt.want)
		}
		if shown := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(shown, "canary") {
			t.Errorf("%s: a printed configuration shows a key", name)
		}
	}
	if _, problem := loadText(t, "discover: false\nmodels: [{id: x, provider: openai, plan: free, context_length: 10, max_output: 5}]\n", env...); !strings.Contains(problem, "no provider is called") {
		t.Errorf("a model at a provider that is not looked for: %q", problem)
	}
}
