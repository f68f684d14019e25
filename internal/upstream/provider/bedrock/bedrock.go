// Package bedrock speaks the Converse API of Amazon Bedrock, which serves models of several vendors.
//
// Converse follows the rules of Claude's own API in most things, for all models; these rules are in package
// claude. Here are the wire types and what only Converse does: requests are signed with the keys of an AWS
// account, streams come in frames of AWS's own instead of server-sent events, and what only some models know,
// such as thinking, goes along in additional members.
//
// How the words of our API translate:
//
//	system message         system, a list of text blocks; behind others a part of the user's turn
//	cache_control          cachePoint block
//	tool result            toolResult block in a turn of the user
//	tool_calls             toolUse blocks, with the arguments as an object
//	reasoning_content      reasoningContent blocks; redacted ones are kept and not shown
//	image_url              image block; addresses are refused
//	response_format        outputConfig.textFormat for strict schemas of Claude, else emulated
//	reasoning_effort       additionalModelRequestFields or outputConfig.effort, by the model's vendor
//	tool_choice none       tool_choice of newer Claudes; else no tools, and earlier calls as text
//	finish_reason          stopReason of the messageStop event
package bedrock

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// dialect marks the thinking that is kept for a next turn: that of the Messages API has another form.
const dialect = "bedrock"

// Keys are the credentials of an AWS account.
type Keys struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string // only with temporary keys; otherwise empty
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// BaseURL is the endpoint. Default: the region's public one.
	BaseURL string
	// Pulse ends replies that are silent for too long. If it is nil, a reply may be silent forever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Transport replaces the adapter's own connection pool, for tests.
	Transport http.RoundTripper
}

// Adapter calls the models of one region. It implements provider.Adapter.
type Adapter struct {
	*provider.Client
	base string // the endpoint, without a slash at its end
	key  string // stands for the access key; see claude.KeyName
}

// fixed is the header of all requests, besides their signatures.
var fixed = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"sluice"}}

// New returns an adapter for a region, such as us-east-1. opts may be nil.
func New(region string, keys Keys, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	base := cmp.Or(opts.BaseURL, "https://bedrock-runtime."+region+".amazonaws.com")
	if u, err := url.Parse(base); err != nil || u.Host == "" || region == "" {
		return nil, errors.New("the region or the base URL cannot be read")
	}
	return &Adapter{
		base: strings.TrimSuffix(base, "/"), key: claude.KeyName(keys.AccessKeyID),
		Client: provider.NewClient(&provider.ClientOptions{
			Signer: Signer("bedrock", region, keys), Pulse: opts.Pulse, Silence: opts.Silence, Transport: opts.Transport,
		}),
	}, nil
}

// Reach implements provider.Reacher.
func (a *Adapter) Reach(ctx context.Context) error {
	u, err := url.Parse(a.base)
	if err != nil {
		return provider.ErrNotTried // New has read it
	}
	return a.Connect(ctx, u)
}

// Open implements provider.Adapter.
// The body is signed as a whole, so it is complete in memory before anything is sent.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	s, err := a.translate(ctx, call, false)
	if claude.RefusesThinking(err) {
		// The vendor would refuse the same again, whoever asks. The conversation goes on without it.
		if s, err = a.translate(ctx, call, true); err == nil {
			call.Omit("thinking")
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// BindsToKey implements provider.KeyBound.
func (a *Adapter) BindsToKey(upstream string) bool { return claude.BindsToKey(upstream) }

// Keeps implements provider.Marker. Models of other vendors keep prompts by themselves, or not at all.
func (a *Adapter) Keeps(upstream string) (least int, hour bool) { return claude.Keeps(upstream) }

// translate sends the call. If bare is set, it is sent without the thinking of earlier turns.
func (a *Adapter) translate(ctx context.Context, call *provider.Call, bare bool) (*stream, error) {
	w := writer{call: call, req: call.Request, key: a.key, bare: bare}
	body, err := w.write(ctx)
	if err != nil {
		return nil, err
	}
	method := "/converse"
	if call.Request.Stream {
		method = "/converse-stream"
	}
	u, err := a.url(call, method)
	if err != nil {
		return nil, err
	}
	s := &stream{called: call.Upstream}
	s.Single = !call.Request.Stream
	s.Start(ctx, call, dialect, w.names, w.emulatesJSON())
	s.Follow(w.conversation.Place())
	if err := a.Post(ctx, &s.Reply, u, call.Header(fixed), body); err != nil {
		if w.conversation.Thoughts() > 0 {
			err = claude.WithThinking(err)
		}
		return nil, err
	}
	return s, nil
}

// url returns the URL of a method of the call's model. The model's name may be an ARN. Its slashes must be escaped to stay one segment
// of the path, and its colons because the signature is computed over the escaped form.
func (a *Adapter) url(call *provider.Call, method string) (*url.URL, error) {
	name := strings.ReplaceAll(url.PathEscape(call.Upstream), ":", "%3A")
	u, err := url.Parse(a.base + "/model/" + name + method)
	if err != nil {
		return nil, fmt.Errorf("the address of model %q: %w", call.Upstream, err)
	}
	return u, nil
}

// Signer signs requests to a service of AWS with the keys of an account. The signature covers the body and the time, so
// each request has one of its own.
func Signer(service, region string, keys Keys) *provider.Signer {
	signer := v4.NewSigner() // safe for use by several goroutines
	account := aws.Credentials{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken}
	sign := func(ctx context.Context, method string, u *url.URL, body [3][]byte) (http.Header, error) {
		sum, length := sha256.New(), 0
		for _, piece := range body {
			sum.Write(piece) // never fails
			length += len(piece)
		}
		own := *u // the signer writes to it
		// The request is made up for the signer alone; another one is sent with its header. Other members than these may
		// change on the way.
		r := &http.Request{Method: method, URL: &own, Host: u.Host, ContentLength: int64(length), Header: http.Header{"Content-Type": {"application/json"}}}
		if err := signer.SignHTTP(ctx, account, r, hex.EncodeToString(sum.Sum(nil)), service, region, time.Now()); err != nil {
			return nil, fmt.Errorf("signing a request: %w", err)
		}
		return r.Header, nil
	}
	return &provider.Signer{Sign: sign, Secrets: []string{keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken}}
}
