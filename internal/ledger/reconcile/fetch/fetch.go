// Package fetch asks vendors' APIs for what they say that they served and charged.
//
// A Source reads page after page into a reconcile.Reader, with a key that may read an organisation's usage. It repeats nothing that a
// vendor answers, because error messages of some vendors have parts of keys.
package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"sluice/internal/kit/netguard"
	"sluice/internal/ledger/reconcile"
)

// Options are the choices of a Source.
type Options struct {
	Vendor reconcile.Vendor
	Key    string // that may read usage; not for AWS
	// AWS are the keys of an AWS account that may use the Cost Explorer.
	AWS Keys
	// Base is the address of the API; empty: the vendor's.
	Base string
	// Keys says that the export is divided by API key, so that some can be chosen. Reports that cannot be are left out.
	Keys bool
	// Progress is told what was read. It may be nil.
	Progress func(text string)
}

// Keys are those of an AWS account. The token is empty unless they are temporary.
type Keys struct{ ID, Secret, Token string }

const (
	mostPages = 500
	mostBytes = 64 << 20 // of a page
	patience  = 2 * time.Minute
)

// bases are the addresses of the vendors' APIs.
var bases = map[reconcile.Vendor]string{
	reconcile.OpenAI: "https://api.openai.com", reconcile.Anthropic: "https://api.anthropic.com", reconcile.AWS: "https://ce.us-east-1.amazonaws.com", reconcile.OpenRouter: "https://openrouter.ai",
}

// Source is one vendor's API.
type Source struct {
	opts   Options
	base   string
	host   string
	guard  *netguard.Guard
	client *http.Client
}

// New returns a source. Close releases its connections.
func New(opts Options) (*Source, error) {
	s := &Source{opts: opts, base: strings.TrimSuffix(opts.Base, "/")}
	guard := netguard.Options{}
	if s.base == "" {
		s.base = bases[opts.Vendor]
	}
	address, err := url.Parse(s.base)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		return nil, errors.New("the address of the vendor's API must be a URL such as https://api.openai.com")
	}
	if opts.Base != "" { // the operator has named it
		guard.Allow = []string{address.Host}
	}
	header := http.Header{}
	switch opts.Vendor {
	case reconcile.Anthropic:
		header.Set("X-Api-Key", opts.Key)
		header.Set("Anthropic-Version", "2023-06-01")
	case reconcile.OpenAI, reconcile.OpenRouter:
		header.Set("Authorization", "Bearer "+opts.Key)
	}
	s.host = address.Host
	s.guard = netguard.New(&guard)
	s.client = s.guard.Client(address, header)
	return s, nil
}

// Close closes idle connections.
func (s *Source) Close() { s.guard.Close() }

// report is one list of a vendor's API.
type report struct {
	name  string // for people
	path  string
	query url.Values
}

// Read reads the days from one to another, both included.
func (s *Source) Read(ctx context.Context, into *reconcile.Reader, from, to time.Time) error {
	if s.opts.Vendor == reconcile.AWS {
		return s.explorer(ctx, into, from, to)
	}
	for _, r := range s.reports(from, to) {
		if err := s.pages(ctx, into, &r); err != nil {
			return err
		}
	}
	return nil
}

// reports returns what is asked of a vendor.
func (s *Source) reports(from, to time.Time) []report {
	end := to.AddDate(0, 0, 1)
	unix := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	switch s.opts.Vendor {
	case reconcile.OpenAI:
		span := func(limit string, by ...string) url.Values {
			return url.Values{"start_time": {unix(from)}, "end_time": {unix(end)}, "bucket_width": {"1d"}, "limit": {limit}, "group_by": by}
		}
		costs := span("180", "line_item")
		if s.opts.Keys {
			costs["group_by"] = append(costs["group_by"], "api_key_id")
		}
		return []report{
			{"usage", "/v1/organization/usage/completions", span("31", "model", "service_tier", "batch", "api_key_id")},
			{"embeddings", "/v1/organization/usage/embeddings", span("31", "model", "api_key_id")},
			{"costs", "/v1/organization/costs", costs},
		}
	case reconcile.Anthropic:
		span := func(by ...string) url.Values {
			return url.Values{"starting_at": {from.Format(time.RFC3339)}, "ending_at": {end.Format(time.RFC3339)}, "bucket_width": {"1d"}, "limit": {"31"}, "group_by[]": by}
		}
		list := []report{{"usage", "/v1/organizations/usage_report/messages", span("model", "service_tier", "inference_geo", "api_key_id")}}
		if !s.opts.Keys {
			list = append(list, report{"costs", "/v1/organizations/cost_report", span("description")})
		}
		return list
	}
	return []report{{"activity", "/api/v1/activity", url.Values{}}}
}

// pages reads all pages of a report.
func (s *Source) pages(ctx context.Context, into *reconcile.Reader, r *report) error {
	for n := 1; n <= mostPages; n++ {
		raw, err := s.ask(ctx, http.MethodGet, r.path+"?"+r.query.Encode(), nil)
		if err != nil {
			return err
		}
		var page struct {
			More bool    `json:"has_more"`
			Next *string `json:"next_page"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("%s: the %s: page %d is not JSON", s.host, r.name, n)
		}
		if err := into.Read(fmt.Sprintf("%s %s", s.host, r.name), bytes.NewReader(raw)); err != nil {
			return err
		}
		s.tell("%s: %s: page %d", s.host, r.name, n)
		if !page.More || page.Next == nil || *page.Next == "" || *page.Next == r.query.Get("page") {
			return nil
		}
		r.query.Set("page", *page.Next)
	}
	return fmt.Errorf("%s: the %s: more than %d pages; compare a shorter time", s.host, r.name, mostPages)
}

// explorer reads the costs of Bedrock from the Cost Explorer of AWS.
func (s *Source) explorer(ctx context.Context, into *reconcile.Reader, from, to time.Time) error {
	question := map[string]any{
		"TimePeriod":  map[string]string{"Start": from.Format(time.DateOnly), "End": to.AddDate(0, 0, 1).Format(time.DateOnly)},
		"Granularity": "DAILY", "Metrics": []string{"UnblendedCost", "UsageQuantity"},
		"GroupBy": []map[string]string{{"Type": "DIMENSION", "Key": "USAGE_TYPE"}, {"Type": "DIMENSION", "Key": "SERVICE"}},
	}
	for n := 1; n <= mostPages; n++ {
		body, err := json.Marshal(question)
		if err != nil {
			return err
		}
		raw, err := s.ask(ctx, http.MethodPost, "/", body)
		if err != nil {
			return err
		}
		var page struct{ NextPageToken string }
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("%s: page %d is not JSON", s.host, n)
		}
		if err := into.Read(s.host+" costs", bytes.NewReader(raw)); err != nil {
			return err
		}
		s.tell("%s: costs: page %d", s.host, n)
		if page.NextPageToken == "" || page.NextPageToken == question["NextPageToken"] {
			return nil
		}
		question["NextPageToken"] = page.NextPageToken
	}
	return fmt.Errorf("%s: more than %d pages; compare a shorter time", s.host, mostPages)
}

// request returns a request, signed if the vendor is AWS.
func (s *Source) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if s.opts.Vendor == reconcile.AWS {
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("X-Amz-Target", "AWSInsightsIndexService.GetCostAndUsage")
		sum := sha256.Sum256(body)
		keys := aws.Credentials{AccessKeyID: s.opts.AWS.ID, SecretAccessKey: s.opts.AWS.Secret, SessionToken: s.opts.AWS.Token}
		if err := v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), "ce", "us-east-1", time.Now()); err != nil {
			return nil, fmt.Errorf("signing a request: %w", err)
		}
	}
	return req, nil
}

// ask sends one request and returns the reply.
func (s *Source) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := s.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %w", s.host, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, s.refused(resp)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
	if err == nil && len(raw) > mostBytes {
		err = errors.New("the page is too large; compare a shorter time")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.host, err)
	}
	return raw, nil
}

// refused says what a status means, and what to do.
func (s *Source) refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s answered %d: the key must be one that may read the organisation's usage, not one for calls; or export a file and compare that", s.host, resp.StatusCode)
	case http.StatusTooManyRequests:
		after := ""
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
			after = fmt.Sprintf(" in %d seconds", n)
		}
		return fmt.Errorf("%s answered 429: it allows few such requests; try again later%s, or export a file and compare that", s.host, after)
	}
	return fmt.Errorf("%s answered %d; try again later, or export a file and compare that", s.host, resp.StatusCode)
}

func (s *Source) tell(format string, args ...any) {
	if s.opts.Progress != nil {
		s.opts.Progress(fmt.Sprintf(format, args...))
	}
}
