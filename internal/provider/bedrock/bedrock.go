// Package bedrock speaks the Converse API of Amazon Bedrock, which is the same for all its models.
//
// Requests are signed with the account's keys; streams come as frames of AWS's own, not as
// server-sent events. What of a request only some models know, such as thinking, goes along as their
// own fields. As in package anthropic, signed thinking is kept with the tool calls of its turn and put
// back when their results arrive.
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

	"sluice/internal/provider"
	"sluice/internal/pulse"
)

// dialect names what is kept for a next turn.
const dialect = "bedrock"

// Keys are those of an AWS account.
type Keys struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string // only with temporary keys
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// BaseURL is the endpoint. Default: the region's public one.
	BaseURL string
	// Pulse watches replies for silence; nil: they may be silent for ever.
	Pulse *pulse.Pulse
	// Silence is how long a reply may pause once it has begun. Default two minutes.
	Silence time.Duration
	// Transport replaces the connection pool, for tests.
	Transport http.RoundTripper
}

// Adapter calls the models of one region.
type Adapter struct {
	*provider.Client
	base   string
	region string
	keys   aws.Credentials
	signer *v4.Signer
}

// New returns an adapter for the region, such as us-east-1.
func New(region string, keys Keys, opts *Options) (*Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	base := cmp.Or(opts.BaseURL, "https://bedrock-runtime."+region+".amazonaws.com")
	if u, err := url.Parse(base); err != nil || u.Host == "" || region == "" {
		return nil, errors.New("the region or the base URL cannot be read")
	}
	return &Adapter{
		base: strings.TrimSuffix(base, "/"), region: region, signer: v4.NewSigner(),
		keys: aws.Credentials{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken},
		Client: provider.NewClient(&provider.ClientOptions{
			Secrets: []string{keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken},
			Pulse:   opts.Pulse, Silence: opts.Silence, Transport: opts.Transport,
		}),
	}, nil
}

// Open sends the call.
func (a *Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	w := writer{call: call, req: call.Request}
	body, err := w.write(ctx)
	if err != nil {
		return nil, err
	}
	u, err := a.url(call)
	if err != nil {
		return nil, err
	}
	header, err := a.sign(ctx, u, body)
	if err != nil {
		return nil, err
	}
	s := &stream{whole: !call.Request.Stream}
	s.Start(ctx, call, dialect, w.names, w.emulatesJSON())
	if err := a.Post(ctx, &s.reply, u, header, body); err != nil {
		return nil, err
	}
	return s, nil
}

// url is that of the model. Its name may be an ARN, full of colons and slashes, which all are escaped:
// the signature counts them so.
func (a *Adapter) url(call *provider.Call) (*url.URL, error) {
	method := "/converse"
	if call.Request.Stream {
		method = "/converse-stream"
	}
	name := strings.ReplaceAll(url.PathEscape(call.Upstream), ":", "%3A")
	u, err := url.Parse(a.base + "/model/" + name + method)
	if err != nil {
		return nil, fmt.Errorf("the address of model %q: %w", call.Upstream, err)
	}
	return u, nil
}

// sign returns the header of a request.
func (a *Adapter) sign(ctx context.Context, u *url.URL, body []byte) (http.Header, error) {
	r := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"sluice"}},
	}
	sum := sha256.Sum256(body)
	if err := a.signer.SignHTTP(ctx, a.keys, r, hex.EncodeToString(sum[:]), "bedrock", a.region, time.Now()); err != nil {
		return nil, fmt.Errorf("signing a request: %w", err)
	}
	return r.Header, nil
}
