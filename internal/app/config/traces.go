package config

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

var (
	traceFollows  = []string{"trusted", "all"}
	traceCaptures = []string{"none", "content"}
)

func (r *record) checkTraces(t *Traces) {
	if t.Endpoint != "" {
		r.checkBase("traces.endpoint", t.Endpoint)
	}
	r.failIf(t.Sample > 1000, "traces.sample", "must be between 0 and 1; got %s", t.Sample)
	r.checkOneOf("traces.follow", t.Follow, "way to follow callers", traceFollows)
	r.checkOneOf("traces.capture", t.Capture, "kind of capture", traceCaptures)
	if _, ok := t.HeaderMap(); !ok {
		r.fail("traces.headers", "must be name=value, several separated by commas") // without the value, which is a secret
	}
	if t.Capture == "content" && t.Endpoint != "" {
		r.warn("traces.capture", "prompts and replies are sent to the collector")
	}
}

// HeaderMap returns the headers for the collector, and false if they cannot be read.
func (t *Traces) HeaderMap() (headers map[string]string, ok bool) {
	headers = map[string]string{}
	for pair := range strings.SplitSeq(t.Headers.Reveal(), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if err != nil || name == "" || value == "" || strings.ContainsAny(name+value, "\r\n\x00") || strings.ContainsAny(name, " \t:") {
			return nil, false
		}
		headers[name] = value
	}
	return headers, true
}

// Hash returns 48 bits that differ if two configurations do, so that they fit in a float. Secrets are in
// it by their last four characters.
func (c *Config) Hash() uint64 {
	text, _ := json.Marshal(c) // all fields can be encoded; a test does it
	sum := sha256.Sum256(text)
	var n uint64
	for _, b := range sum[:6] {
		n = n<<8 | uint64(b)
	}
	return n
}
