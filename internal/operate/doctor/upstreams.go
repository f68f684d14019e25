package doctor

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

// upstreamPatience is how long a provider may take to answer. The operator waits for each key.
const upstreamPatience = 5 * time.Second

// Provider is an upstream that the configuration names. It has at least one key.
type Provider struct {
	Name  string
	Where string // its address, or its kind if it has none
	// Address is the host and port to connect to, whatever the URLs say; empty: as they say. Replica is the name of the
	// server among those of the provider; empty if it has one address.
	Address, Replica string
	Keys             []Key
}

// Key is one key of a provider.
type Key struct {
	Secret string // the key itself; empty if the provider needs none
	Shown  string // the part of it that may be shown; empty if there is no key
	// Connect returns an adapter that uses the key and sends its requests through t. It sends
	// nothing yet.
	Connect func(t http.RoundTripper) (provider.Adapter, error)
}

// providers asks every provider for its list of models, with each of its keys. That needs a working
// address and key and costs nothing. Findings about a key come from the method key; providers adds
// one only if all keys of a provider work.
func (d *doctor) providers(ctx context.Context) {
	switch {
	case len(d.site.Providers) > 0:
	case d.counted.Discovered > 0:
		d.ok("providers", "none configured; the discovered models and the sandbox models answer")
	default:
		d.ok("providers", "none configured; the sandbox models answer")
	}
	for i := range d.site.Providers {
		p := &d.site.Providers[i]
		well := 0 // keys that work
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
			d.ok("provider "+p.Name, "%s answers with each of its %d keys", p.Where, well)
		}
	}
}

// key asks for the list of models with one key. It reports whether the provider answered and did not
// refuse the key. Otherwise it adds a finding.
func (d *doctor) key(ctx context.Context, p *Provider, key Key) bool {
	ctx, cancel := context.WithTimeout(ctx, upstreamPatience)
	defer cancel()
	// One request and no more, so its connection is not kept.
	seen := &witness{transport: p.transport()}
	subject := "provider " + p.Name
	a, err := key.Connect(seen)
	if err != nil {
		d.add(StateProblem, subject, "Fix it in the configuration.", "%v", err)
		return false
	}
	lister, ok := a.(discovery.Lister)
	if !ok {
		d.ok(subject, "%s has no list of models, so its key was not checked", p.Where)
		return false
	}
	// The adapter's error is worded for callers, who must not see the upstream's answer. The witness
	// has seen what really happened. Any other answer than those below, such as a 404 from a server
	// that has no such list, shows that the provider can be reached.
	_, err = lister.Models(ctx)
	switch {
	case seen.err == nil && seen.status == 0: // nothing was sent
		d.add(StateProblem, subject, "Fix it in the configuration.", "no request could be sent: %v", err)
	case seen.err != nil:
		d.add(StateProblem, subject, "Check "+p.setting()+" and the network between here and there.", "%s cannot be reached: %s", p.Where, key.conceal(excerpt.Cause(seen.err).Error()))
	case seen.status == http.StatusUnauthorized || seen.status == http.StatusForbidden:
		d.add(StateProblem, subject, "Check api_key: "+cmp.Or(key.Shown, "none")+" is the one in use.", "%s refuses the key (status %d)", p.Where, seen.status)
	case seen.status >= 500:
		d.add(StateWarning, subject, "Try again later; look at the provider's status page.", "%s answers with status %d", p.Where, seen.status)
	default:
		return true
	}
	return false
}

// transport returns a transport to the provider, which keeps no connections.
func (p *Provider) transport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if p.Address != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, p.Address)
		}
	}
	return t
}

// setting returns the name of the setting that has the address.
func (p *Provider) setting() string {
	if p.Replica != "" {
		return "replicas"
	}
	return "base_url"
}

// conceal replaces the key in text with the part of it that may be shown, in case an error quotes
// the request.
func (k *Key) conceal(text string) string {
	if k.Secret == "" {
		return text
	}
	return strings.ReplaceAll(text, k.Secret, k.Shown)
}

// witness is a transport that records the result of the last request. It is used by one goroutine.
type witness struct {
	transport http.RoundTripper
	status    int   // of the last reply; 0 if there was none yet
	err       error // of the last request
}

// RoundTrip implements http.RoundTripper. It sees the reply before the adapter translates it.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.transport.RoundTrip(r)
	if w.err = err; err == nil {
		w.status = resp.StatusCode
	}
	return resp, err
}

// targets reports what the running server knows about the health of its targets. The doctor itself
// cannot know it: health is what the calls of the server have shown.
func (d *doctor) targets() {
	if d.running == nil {
		return
	}
	// A half-open breaker counts as open: its target has not shown yet that it works again.
	well := 0
	for _, t := range d.running.Targets {
		switch {
		case t.Provider == catalog.SandboxProvider: // part of this program; it cannot be down
		case t.State == routing.Closed && !t.Down:
			well++
		case t.State == routing.Closed:
			d.add(StateWarning, "provider "+t.Provider, "Check the network and base_url. The server tries again by itself.", "%s cannot be reached from the server", target(t))
		default:
			d.add(StateWarning, "provider "+t.Provider, "The server retries it by itself. Its log says what went wrong.",
				"%s is not used for now: %.0f%% of its recent calls failed", target(t), 100*t.ErrorRate)
		}
	}
	if well > 0 {
		d.ok("targets", "%d targets of the server are healthy", well)
	}
}

// target returns the name of a target, with the last four characters of its key and its replica if it has them.
func target(t routing.TargetHealth) string {
	name := t.Upstream
	if t.Key != "" {
		name += " with the key " + t.Key
	}
	if t.Replica != "" {
		name += " at " + t.Replica
	}
	return name
}
