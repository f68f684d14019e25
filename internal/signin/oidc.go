package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sluice/internal/fault"
)

const (
	// providerPatience is how long one question to an identity provider may take.
	providerPatience = 10 * time.Second
	// providerPause is how long a provider that did not answer is not asked again: those who wait for the
	// first answer would else wait for one each.
	providerPause = 5 * time.Second
	// maxProviderCode is how long a provider's code may be. Anything longer is not sent back to it.
	maxProviderCode = 4 << 10
)

// Provider is an identity provider that the operator trusts with its accounts' addresses.
type Provider struct {
	name, issuer, clientID, secret string
	client                         *http.Client

	mu     sync.Mutex
	found  *oidc.Provider // nil until first used: a provider that is away does not keep us from starting
	failed error          // what the last search ended with, at away
	away   time.Time
}

// NewProvider returns the provider at an issuer. Name is what the button says.
func NewProvider(name, issuer, clientID, secret string) *Provider {
	return &Provider{name: name, issuer: issuer, clientID: clientID, secret: secret, client: &http.Client{Timeout: providerPatience}}
}

// Name is what people call it.
func (p *Provider) Name() string { return p.name }

// Journey is one way to the provider and back: kept by the browser that began it, and by nobody else.
type Journey struct{ state, nonce, verifier string }

// String and ParseJourney are the form for a cookie.
func (j Journey) String() string { return j.state + "." + j.nonce + "." + j.verifier }

// ParseJourney reads String's form.
func ParseJourney(text string) (Journey, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] == "" {
		return Journey{}, false
	}
	return Journey{parts[0], parts[1], parts[2]}, true
}

// Begin returns where to send the browser.
func (p *Provider) Begin(ctx context.Context, redirect string) (string, Journey, error) {
	config, _, err := p.config(ctx, redirect)
	if err != nil {
		return "", Journey{}, err
	}
	j := Journey{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	return config.AuthCodeURL(j.state, oidc.Nonce(j.nonce), oauth2.S256ChallengeOption(j.verifier)), j, nil
}

// End turns what the browser brought back into an address that the provider has verified. Without its word on
// that (email_verified) anybody could claim any address there.
func (p *Provider) End(ctx context.Context, redirect string, j Journey, state, code string) (string, error) {
	if state == "" || subtle.ConstantTimeCompare([]byte(state), []byte(j.state)) != 1 || len(code) > maxProviderCode {
		return "", fault.New(fault.Invalid, "This answer belongs to another sign-in. Begin again.")
	}
	config, provider, err := p.config(ctx, redirect)
	if err != nil {
		return "", err
	}
	refused := func(err error) error {
		return fault.New(fault.Unauthenticated, "%s did not confirm who you are. Begin again.", p.name).Because(err)
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(j.verifier))
	if err != nil {
		return "", refused(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: p.clientID}).Verify(ctx, raw)
	if err != nil {
		return "", refused(err)
	}
	if id.Nonce != j.nonce {
		return "", refused(errors.New("the nonce differs"))
	}
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	if err := id.Claims(&claims); err != nil {
		return "", refused(err)
	}
	if claims.Email == "" || !claims.Verified {
		return "", fault.New(fault.Unauthenticated, "%s does not vouch for your e-mail address.", p.name)
	}
	return claims.Email, nil
}

// config discovers the provider once.
func (p *Provider) config(ctx context.Context, redirect string) (*oauth2.Config, *oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil && p.failed != nil && time.Since(p.away) < providerPause {
		return nil, nil, p.failed
	}
	if p.found == nil {
		// The provider keeps its context for fetching keys later: it must outlive this request.
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.issuer)
		if err != nil {
			p.failed, p.away = fault.New(fault.Unavailable, "%s does not answer. Try again shortly, or sign in another way.", p.name).After(providerPause).Because(err), time.Now()
			return nil, nil, p.failed
		}
		p.found = found
	}
	return &oauth2.Config{
		ClientID: p.clientID, ClientSecret: p.secret, Endpoint: p.found.Endpoint(), RedirectURL: redirect,
		Scopes: []string{oidc.ScopeOpenID, "email"},
	}, p.found, nil
}
