package config

import (
	"slices"

	"sluice/internal/upstream/replicas"
)

// replicated are the kinds of providers that may have replicas: servers that one can run oneself.
var replicated = []string{"openai", "vllm", "llamacpp", "lmstudio", "ollama"}

// checkReplicas checks the list of a provider's servers.
func (r *record) checkReplicas(path string, p *Provider) {
	path += ".replicas"
	if len(p.Replicas) == 0 {
		return
	}
	if isKind(p.Kind) && !slices.Contains(replicated, p.Kind) {
		r.fail(path, "is not for the kind %s: its servers are the vendor's", p.Kind)
	}
	r.failIf(len(p.Replicas) > replicas.Most, path, "has %d entries, and the limit is %d; use a name that stands for all of them", len(p.Replicas), replicas.Most)
	first := map[string]string{}
	for i, text := range p.Replicas {
		at := index(path, i)
		s, err := replicas.Parse(text)
		if err != nil {
			r.fail(at, "%s", err.Error())
			continue
		}
		// Replicas are told apart by host and port, on pages and in commands.
		name := s.Place().Name
		if other, taken := first[name]; taken {
			r.fail(at, "%s is also in %s; hosts and ports must differ", name, other)
		}
		first[name] = at
	}
}

// Sources returns where the servers of the provider are; none if it has one address. Load has checked them.
func (p *Provider) Sources() []replicas.Source {
	var list []replicas.Source
	for _, text := range p.Replicas {
		if s, err := replicas.Parse(text); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// Places returns where the servers of the provider are now. There is at least one. names may be nil.
func (p *Provider) Places(names *replicas.Names) []replicas.Place {
	if list := p.Sources(); len(list) > 0 {
		return names.Places(list)
	}
	return []replicas.Place{{Base: p.BaseURL}}
}
