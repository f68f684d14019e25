package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/discovery"
	"sluice/internal/provider"
	"sluice/internal/routing"
)

// upstreamPatience is how long a provider may take to answer.
const upstreamPatience = 5 * time.Second

// Provider is an upstream that the configuration names.
type Provider struct {
	Name  string
	Where string // its address, or its kind
	Keys  []Key
}

// Key is one key of a provider.
type Key struct {
	Secret string // the key itself; empty if the provider needs none
	Shown  string // the part of it that may be shown
	// Connect returns an adapter that uses the key and sends its requests through t.
	Connect func(t http.RoundTripper) (provider.Adapter, error)
}

// providers asks every provider for its models, with each of its keys.
func (d *doctor) providers(ctx context.Context) {
	if len(d.site.Providers) == 0 {
		d.ok("providers", "none configured; the sandbox models answer")
	}
	for i := range d.site.Providers {
		p := &d.site.Providers[i]
		well := 0
		for _, key := range p.Keys {
			if d.key(ctx, p, key) {
				well++
			}
		}
		switch {
		case well == 0 || well < len(p.Keys): // reported key by key
		case well == 1:
			d.ok("provider "+p.Name, "%s answers", p.Where)
		default:
			d.ok("provider "+p.Name, "%s answers to each of its %d keys", p.Where, well)
		}
	}
}

// key lists the provider's models with one key. It reports whether the provider answered without a complaint.
func (d *doctor) key(ctx context.Context, p *Provider, key Key) bool {
	ctx, cancel := context.WithTimeout(ctx, upstreamPatience)
	defer cancel()
	seen := &witness{transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	subject := "provider " + p.Name
	a, err := key.Connect(seen)
	if err != nil {
		d.add(StateProblem, subject, "Mend it in the configuration.", "%v", err)
		return false
	}
	lister, ok := a.(discovery.Lister)
	if !ok {
		d.ok(subject, "%s has no list of models to ask for", p.Where)
		return false
	}
	_, err = lister.Models(ctx) // any answer shows that the provider can be reached
	switch {
	case seen.err == nil && seen.status == 0:
		d.add(StateProblem, subject, "Mend it in the configuration.", "it cannot be asked: %v", err)
	case seen.err != nil:
		d.add(StateProblem, subject, "Check base_url and the network between here and there.", "%s cannot be reached: %s", p.Where, key.conceal(Cause(seen.err).Error()))
	case seen.status == http.StatusUnauthorized || seen.status == http.StatusForbidden:
		d.add(StateProblem, subject, "Check api_key: "+cmp.Or(key.Shown, "none")+" is the one in use.", "%s refuses the key (status %d)", p.Where, seen.status)
	case seen.status >= 500:
		d.add(StateWarning, subject, "Try again later; look at the provider's status page.", "%s answers with status %d", p.Where, seen.status)
	default:
		return true
	}
	return false
}

// conceal replaces the key by the part of it that may be shown, in case an upstream repeats it.
func (k *Key) conceal(text string) string {
	if k.Secret == "" {
		return text
	}
	return strings.ReplaceAll(text, k.Secret, k.Shown)
}

// witness is a transport that records how the last request went.
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

// targets reports what the running server knows about the health of its targets.
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

// target names a target, and its key if it has one.
func target(t routing.Standing) string {
	if t.Key == "" {
		return t.Upstream
	}
	return fmt.Sprintf("%s with the key %s", t.Upstream, t.Key)
}
