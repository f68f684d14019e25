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

	"sluice/internal/kit/fault"
)

const (
	// providerPatience is how long one request to an identity provider may take.
	providerPatience = 10 * time.Second
	// providerPause is how long a provider that did not answer is not asked again. Visitors wait in
	// line for the first answer; without the pause each of them would wait for a timeout of their
	// own.
	providerPause = 5 * time.Second
	// maxProviderCode is how long a provider's code may be. Anything longer is not sent back to it.
	maxProviderCode = 4 << 10
)

// Provider is an OpenID Connect identity provider that the operator trusts to verify addresses. Its
// methods may be called from several goroutines.
type Provider struct {
	name, issuer, clientID, secret string
	client                         *http.Client

	mu     sync.Mutex     // guards the fields below, and is held while the provider is discovered
	found  *oidc.Provider // nil until first used, so that a provider that is down does not keep the server from starting
	failed error          // why the last discovery failed; nil: it has not
	away   time.Time      // when it failed
}

// NewProvider returns the provider at an issuer. It does not contact it. name is shown on the button.
func NewProvider(name, issuer, clientID, secret string) *Provider {
	return &Provider{name: name, issuer: issuer, clientID: clientID, secret: secret, client: &http.Client{Timeout: providerPatience}}
}

// Name returns the name that people know the provider by.
func (p *Provider) Name() string { return p.name }

// Journey is one visit to the provider and back. Only the browser that began it has it, in a
// cookie, so nobody can make another browser finish it. state ties the reply to this browser, nonce
// ties the id token to this visit, and verifier (PKCE) ties the code to this client.
type Journey struct{ state, nonce, verifier string }

// String returns the value for the cookie; ParseJourney reads it.
func (j Journey) String() string { return j.state + "." + j.nonce + "." + j.verifier }

// ParseJourney reads what String returned. It reports false for anything else.
func ParseJourney(text string) (Journey, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] == "" {
		return Journey{}, false
	}
	return Journey{parts[0], parts[1], parts[2]}, true
}

// Begin returns the address to send the browser to, and the journey to put into its cookie.
func (p *Provider) Begin(ctx context.Context, redirect string) (string, Journey, error) {
	config, _, err := p.config(ctx, redirect)
	if err != nil {
		return "", Journey{}, err
	}
	j := Journey{rand.Text(), rand.Text(), oauth2.GenerateVerifier()}
	return config.AuthCodeURL(j.state, oidc.Nonce(j.nonce), oauth2.S256ChallengeOption(j.verifier)), j, nil
}

// End exchanges what the browser brought back for an address that the provider has verified. It
// refuses an address without email_verified: at many providers anybody can claim any address.
func (p *Provider) End(ctx context.Context, redirect string, j Journey, state, code string) (string, error) {
	if state == "" || subtle.ConstantTimeCompare([]byte(state), []byte(j.state)) != 1 || len(code) > maxProviderCode {
		return "", fault.New(fault.Invalid, "This reply belongs to another sign-in. Start again.")
	}
	config, provider, err := p.config(ctx, redirect)
	if err != nil {
		return "", err
	}
	refused := func(err error) error {
		return fault.New(fault.Unauthenticated, "%s did not confirm who you are. Start again.", p.name).Because(err)
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
	// An id token of another visit, which somebody stole, has another nonce.
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
		return "", fault.New(fault.Unauthenticated, "%s has not verified your e-mail address.", p.name)
	}
	return claims.Email, nil
}

// config returns the configuration of the provider, and discovers the provider at the first call.
func (p *Provider) config(ctx context.Context, redirect string) (*oauth2.Config, *oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil && p.failed != nil && time.Since(p.away) < providerPause {
		return nil, nil, p.failed
	}
	if p.found == nil {
		// The provider keeps this context to fetch keys later, so it must outlive the request.
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
