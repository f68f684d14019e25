package settings

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"sluice/internal/app/config"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/openai"
)

// native is Amazon Bedrock by the APIs that the vendors of its models have themselves: the Messages API of Anthropic and
// the Responses API of OpenAI, each with the adapter of that vendor.
type native struct {
	claude *anthropic.Adapter
	gpt    *openai.Adapter
}

// newNative returns the adapters of both APIs. They sign requests with the keys of an AWS account, unless the provider has
// a key of Bedrock's.
func newNative(c *config.Provider, key config.Secret, pool http.RoundTripper, p *pulse.Pulse) (*native, error) {
	var signer *provider.Signer
	apiKey := key.Reveal()
	if c.AccessKeyID != "" {
		signer = bedrock.Signer("bedrock-mantle", c.Region, bedrock.Keys{AccessKeyID: c.AccessKeyID, SecretAccessKey: apiKey, SessionToken: c.SessionToken.Reveal()})
		apiKey = ""
	}
	claude, err := anthropic.New(c.BaseURL+"/anthropic", &anthropic.Options{APIKey: apiKey, Signer: signer, Signs: c.AccessKeyID, Pulse: p, Silence: c.Timeouts.Silence, Transport: pool})
	if err != nil {
		return nil, err
	}
	preset, _ := openai.PresetOf("openai", "")
	gpt, err := openai.New(c.BaseURL+"/openai/v1", &openai.Options{
		Preset: preset, API: openai.APIResponses, APIKey: apiKey, Signer: signer, Pulse: p, Silence: c.Timeouts.Silence, Transport: pool,
	})
	if err != nil {
		return nil, err
	}
	return &native{claude, gpt}, nil
}

// Open implements provider.Adapter. The name of a model begins with its vendor's, after a region if it has one.
func (n *native) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	switch {
	case strings.Contains(call.Upstream, "anthropic."):
		return n.claude.Open(ctx, call)
	case strings.Contains(call.Upstream, "openai."):
		return n.gpt.Open(ctx, call)
	}
	return nil, fault.New(fault.Unavailable, "The model %q is not available at the moment.", call.Request.Model).
		Because(fmt.Errorf("%q is no model of Anthropic or OpenAI: use a provider without api: native for it", call.Upstream))
}

// BindsToKey implements provider.KeyBound.
func (n *native) BindsToKey(upstream string) bool { return n.claude.BindsToKey(upstream) }

// Keeps implements provider.Marker.
func (n *native) Keeps(upstream string) (least int, hour bool) { return n.claude.Keeps(upstream) }

// Reach implements provider.Reacher.
func (n *native) Reach(ctx context.Context) error { return n.claude.Reach(ctx) }

// Retire implements connected. Both adapters have the same pool.
func (n *native) Retire() { n.claude.Retire() }

// Close implements connected.
func (n *native) Close() {
	n.gpt.Wait()
	n.claude.Close()
}
