package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/provider"
	"sluice/internal/routing"
)

const upstreamPatience = 5 * time.Second

// providers asks every provider for its models, with each of its keys.
func (d *doctor) providers(ctx context.Context) {
	if len(d.cfg.Providers) == 0 {
		d.ok("providers", "none configured; the sandbox models answer")
	}
	for i := range d.cfg.Providers {
		p := &d.cfg.Providers[i]
		where, keys := cmp.Or(p.BaseURL, p.Kind), p.Keys()
		well := 0
		for _, key := range keys {
			if d.key(ctx, p, key, where) {
				well++
			}
		}
		switch {
		case well == 0 || well < len(keys):
		case well == 1:
			d.ok("provider "+p.Name, "%s answers", where)
		default:
			d.ok("provider "+p.Name, "%s answers to each of its %d keys", where, well)
		}
	}
}

// key asks with one key, and reports whether there is nothing to tell.
func (d *doctor) key(ctx context.Context, p *config.Provider, key config.Secret, where string) bool {
	ctx, cancel := context.WithTimeout(ctx, upstreamPatience)
	defer cancel()
	seen := &witness{transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	subject := "provider " + p.Name
	a, err := newAdapter(p, key, seen, nil)
	if err != nil {
		d.add(StateProblem, subject, "Mend it in the configuration.", "%v", err)
		return false
	}
	lister, ok := a.(interface {
		Models(context.Context) ([]provider.Listed, error)
	})
	if !ok {
		d.ok(subject, "%s has no list of models to ask for", where)
		return false
	}
	_, err = lister.Models(ctx) // whoever answers is there, whatever the answer
	switch {
	case seen.err == nil && seen.status == 0:
		d.add(StateProblem, subject, "Mend it in the configuration.", "it cannot be asked: %v", err)
	case seen.err != nil:
		d.add(StateProblem, subject, "Check base_url and the network between here and there.", "%s cannot be reached: %s", where, conceal(cause(seen.err).Error(), key))
	case seen.status == http.StatusUnauthorized || seen.status == http.StatusForbidden:
		d.add(StateProblem, subject, "Check api_key: "+cmp.Or(key.String(), "none")+" is the one in use.", "%s refuses the key (status %d)", where, seen.status)
	case seen.status >= 500:
		d.add(StateWarning, subject, "Try again later; look at the provider's status page.", "%s answers with status %d", where, seen.status)
	default:
		return true
	}
	return false
}

// conceal shows a key by its last four alone, also where an upstream repeats it.
func conceal(text string, key config.Secret) string {
	if key == "" {
		return text
	}
	return strings.ReplaceAll(text, key.Reveal(), key.String())
}

// witness notes how the last request went.
type witness struct {
	transport http.RoundTripper
	status    int
	err       error
}

// RoundTrip implements http.RoundTripper.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.transport.RoundTrip(r)
	if w.err = err; err == nil {
		w.status = resp.StatusCode
	}
	return resp, err
}

// targets tells what the server that runs knows of where its models are served.
func (d *doctor) targets() {
	if d.running == nil {
		return
	}
	well := 0
	for _, t := range d.running.Targets {
		switch {
		case t.Provider == catalog.SandboxProvider:
		case t.State == routing.Closed:
			well++
		default:
			d.add(StateWarning, "provider "+t.Provider, "The server tries it again by itself; its log says why it was given up.",
				"%s is left alone for the moment: %.0f %% of its last calls failed", target(t), 100*t.ErrorRate)
		}
	}
	if well > 0 {
		d.ok("targets", "the server finds %d of its targets well", well)
	}
}

// target names a target, and its key where there is one.
func target(t routing.Standing) string {
	if t.Key == "" {
		return t.Upstream
	}
	return fmt.Sprintf("%s with the key %s", t.Upstream, t.Key)
}
