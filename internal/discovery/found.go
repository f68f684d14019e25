package discovery

import (
	"context"
	"net/url"
	"slices"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/provider"
)

// Found is what was discovered. It never changes: Look returns a new one. The zero value means that nothing was
// found yet.
type Found struct {
	Local  []Server                     // model servers that run on this machine
	Listed map[string][]provider.Listed // by provider; one that did not answer keeps its last list
}

// Look asks the listers for their models. It returns what is known then, and the errors of those that did not
// answer. Local are the servers that may run on this machine, with a lister each, by their kind. Those that list no
// model are not found.
func (f *Found) Look(ctx context.Context, listers map[string]Lister, local []Server) (*Found, map[string]error) {
	listed, failed := Ask(ctx, listers)
	next := &Found{Listed: map[string][]provider.Listed{}}
	for name, models := range f.Listed {
		if !slices.ContainsFunc(local, func(s Server) bool { return s.Kind == name }) {
			next.Listed[name] = models // it was not asked, or did not answer: nothing new
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

// Vanished reports whether none of a model's targets lists it any more, as far as they were asked.
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

// Source is a provider whose models become part of the catalog although nobody configured them.
type Source struct {
	Kind, Name string
	Origin     catalog.Origin
	Plan       account.Plan // needed to call them
	StaffOnly  bool
	WellKnown  bool // they are the well-known models of its kind, not those that it lists
}

// Models returns the models of the sources. It leaves out those that are configured, under whatever id, and those
// whose id an earlier source has.
func (f *Found) Models(sources []Source, configured []catalog.Model) ([]catalog.Model, error) {
	d, err := NewDescriber()
	if err != nil {
		return nil, err
	}
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

// Unclaimed returns the servers to look for: not one that the configuration names, by its kind or its address, and
// not our own port.
func Unclaimed(servers []Server, configured []Configured, ownPort string) (out []Server) {
	for _, server := range servers {
		u, err := url.Parse(server.BaseURL)
		if err != nil || u.Port() == ownPort {
			continue
		}
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
