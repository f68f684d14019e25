package models

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/providertest"
)

// TestSuite is not parallel: the suite looks for goroutines that are left behind.
func TestSuite(t *testing.T) {
	tokens.Count("load the vocabulary")
	const (
		noWire  = "there is no wire on which that could happen"
		written = "[[sandbox:error=…]] is answered as written, not as an upstream's status"
		figures = "figures are computed"
	)
	providertest.Run(t, providertest.Harness{
		Start: start, Computes: true,
		Unsupported: map[string]string{
			"text before a tool call":               "a reply is either text or calls",
			"usage with cached and reasoning parts": figures,
			"no usage":                              figures,
			"content filter":                        "nothing is filtered",
			"status 400":                            written,
			"status 422":                            written,
			"status 413":                            written,
			"status 400 with our key in it":         written,
			"status 401":                            written,
			"status 402":                            written,
			"status 403":                            written,
			"status 404":                            written,
			"status 408":                            written,
			"status 429":                            written,
			"status 429 with Retry-After":           written,
			"status 429 with milliseconds":          written,
			"status 500":                            written,
			"status 400 with garbage":               noWire,
			"status 400 with HTML":                  noWire,
			"status 503 with garbage":               noWire,
			"redirect":                              noWire,
			"stream reset":                          noWire,
			"stream closed early":                   noWire,
			"stream cut behind its end":             noWire,
			"garbage in a stream":                   noWire,
			"reply reset":                           noWire,
			"garbage in place of a reply":           noWire,
			"stalled stream":                        "a delay ends by itself",
			"stream stalled before anything":        "a delay ends by itself",
			"stalled reply":                         "a delay ends by itself",
		},
	})
}

// start makes the script a prompt that the sandbox answers so.
func start(_ *testing.T, s *providertest.Script) *providertest.Play {
	p := &providertest.Play{Adapter: New(), Upstream: "small", Close: func() {}}
	r := providertest.Expected(s.Events)
	if r.Reasoning != "" {
		p.Upstream = "reasoner"
	}
	var b strings.Builder
	switch s.Then {
	case providertest.Wait:
		b.WriteString("[[sandbox:delay=60s]] ")
	case providertest.Stall:
		b.WriteString("[[sandbox:chunk_delay=60s]] ")
	case providertest.Cut:
		n := 0
		for _, ev := range s.Events {
			if ev.Kind == provider.Text {
				n++
			}
		}
		fmt.Fprintf(&b, "[[sandbox:cut=%d]] ", n)
	}
	if s.Refusal != nil {
		fmt.Fprintf(&b, "[[sandbox:error=%d]] ", s.Refusal.Status)
	}
	for _, c := range r.Calls {
		fmt.Fprintf(&b, "[[sandbox:call=%s %s]] ", c.Name, c.Arguments)
	}
	if r.Text != "" {
		b.WriteString("Repeat exactly: " + r.Text)
	}
	if r.Finish == chat.FinishLength {
		b.WriteString(" and so on and so forth")
	}
	p.Prompt = b.String()
	return p
}
