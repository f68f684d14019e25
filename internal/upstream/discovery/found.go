package discovery

import (
	"context"
	"net/url"
	"slices"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// Found is what was discovered. It never changes, so requests and reloads share it; Look returns a
// new one. The zero value means that nothing was found yet.
type Found struct {
	Local  []Server                     // model servers that run on this machine
	Listed map[string][]provider.Listed // by the name of the provider; only those that have ever answered
}

// Look asks the listers, which are by the names of their providers, for their models. It returns
// what is known then, and the errors of those that did not answer.
//
// local are the servers that may run on this machine; the lister of each has the name of its kind. A
// local server that does not answer, or lists no model, is gone. A provider that does not answer
// keeps its last list: a short outage must not take its models out of the catalog.
func (f *Found) Look(ctx context.Context, listers map[string]Lister, local []Server) (*Found, map[string]error) {
	listed, failed := Ask(ctx, listers)
	next := &Found{Listed: map[string][]provider.Listed{}}
	for name, models := range f.Listed {
		if !slices.ContainsFunc(local, func(s Server) bool { return s.Kind == name }) {
			next.Listed[name] = models // replaced below if it has answered now
		}
	}
	for name, models := range listed {
		next.Listed[name] = models
	}
	for _, s := range local {
		if len(listed[s.Kind]) > 0 {
			next.Local = append(next.Local, s)
		}
	}
	return next, failed
}

// Vanished reports whether none of a model's targets lists it any more. A target whose provider has
// never answered may still have it, so then it reports false.
func (f *Found) Vanished(m *catalog.Model) bool {
	places := m.Places()
	for _, t := range places {
		listed, asked := f.Listed[t.Provider]
		if !asked || slices.ContainsFunc(listed, func(l provider.Listed) bool { return l.ID == t.Upstream }) {
			return false
		}
	}
	return len(places) > 0
}

// listed returns what the provider of a target says of it. Only its name is known if the provider lists none of it.
func (f *Found) listed(t catalog.Target) provider.Listed {
	for _, l := range f.Listed[t.Provider] {
		if l.ID == t.Upstream {
			return l
		}
	}
	return provider.Listed{ID: t.Upstream}
}

// Source is a provider whose models become part of the catalog although nobody configured them.
// Kind says how to describe them, Name is the provider's name in ids, and the other fields become
// fields of its models.
type Source struct {
	Kind, Name string
	Origin     catalog.Origin
	Plan       account.Plan // needed to call them
	StaffOnly  bool
	WellKnown  bool // use the well-known models of its kind; the provider is not asked for a list
}

// Models returns the models of the sources, in their order. It leaves out models that are
// configured, even under another id, and models whose id an earlier source has.
func (f *Found) Models(sources []Source, configured []catalog.Model) ([]catalog.Model, error) {
	d, err := NewDescriber()
	if err != nil {
		return nil, err
	}
	// A configured model takes its own id and the ids that its targets would have if they were found.
	taken := map[string]bool{}
	for i := range configured {
		taken[configured[i].ID] = true
		for _, t := range configured[i].Places() {
			taken[ID(t.Provider, t.Upstream)] = true
		}
	}
	var out []catalog.Model
	for _, s := range sources {
		for _, m := range f.of(s, d) {
			if taken[m.ID] {
				continue
			}
			taken[m.ID] = true
			m.Origin, m.Plan, m.StaffOnly = s.Origin, s.Plan, s.StaffOnly
			out = append(out, m)
		}
	}
	return out, nil
}

// of returns the models of one source, without its plan and origin.
func (f *Found) of(s Source, d *Describer) (models []catalog.Model) {
	if s.WellKnown {
		return d.Known(s.Kind, s.Name)
	}
	for _, l := range f.Listed[s.Name] {
		models = append(models, d.Listed(s.Kind, s.Name, l))
	}
	return models
}

// Configured is a provider that the configuration names.
type Configured struct{ Kind, Name, BaseURL string }

// Unclaimed returns the servers to look for. It leaves out servers that the configuration names, by
// kind, name or address, because the operator has decided about them. It also leaves out the port
// that this process listens on: by default it is the same as that of llama.cpp.
func Unclaimed(servers []Server, configured []Configured, ownPort string) (out []Server) {
	for _, server := range servers {
		u, err := url.Parse(server.BaseURL)
		if err != nil || u.Port() == ownPort {
			continue
		}
		// The servers are on 127.0.0.1, which a configuration may also call localhost.
		claimed := slices.ContainsFunc(configured, func(c Configured) bool {
			at, err := url.Parse(c.BaseURL)
			return c.Kind == server.Kind || c.Name == server.Kind || err == nil && at.Port() == u.Port() && (at.Hostname() == "localhost" || at.Hostname() == u.Hostname())
		})
		if !claimed {
			out = append(out, server)
		}
	}
	return out
}
