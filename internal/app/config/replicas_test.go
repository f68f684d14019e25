package config

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/upstream/replicas"
)

// A provider with replicas has no base URL, is no vendor, and has a place for each replica.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := loadExample(t, "providers:\n- {name: p, kind: ollama, replicas: ['http://10.0.0.1:11434/v1/', 'dns+http://ollama.test:11434/v1']}\n")
	p := &c.Providers[0]
	if p.BaseURL != "" || p.AtVendor() {
		t.Errorf("base_url = %q, at the vendor: %t, want none and false", p.BaseURL, p.AtVendor())
	}
	want := []replicas.Place{{Base: "http://10.0.0.1:11434/v1", Name: "10.0.0.1:11434"}, {Base: "http://ollama.test:11434/v1", Name: "ollama.test:11434"}}
	if got := p.Places(nil); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Places = %v, want %v", got, want)
	}
	if got := c.Redacted(); !strings.Contains(got, `replicas: ["http://10.0.0.1:11434/v1/", "dns+http://ollama.test:11434/v1"]`) {
		t.Errorf("the settings in force do not have the replicas:\n%s", got)
	}
	one := loadExample(t, "providers:\n- {name: p, kind: ollama}\n").Providers[0]
	if got := one.Places(nil); len(got) != 1 || got[0] != (replicas.Place{Base: Address("ollama")}) {
		t.Errorf("Places of a provider without replicas = %v", got)
	}
}

// More replicas than there may be are refused.
func TestTooManyReplicas(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range replicas.Most + 1 {
		list = append(list, fmt.Sprintf("'http://10.0.0.%d:8000/v1'", i))
	}
	_, problem := loadText(t, "providers:\n- {name: p, kind: vllm, replicas: ["+strings.Join(list, ", ")+"]}\n")
	if !strings.Contains(problem, "has 65 entries, and the limit is 64") {
		t.Errorf("Load = %s, want an error about the limit", problem)
	}
}
