package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// openOriginal sends the request of a caller who speaks this dialect in the caller's own words. It returns nil if there
// is none, or if it cannot be sent so; then the request is translated like any other.
//
// It cannot be sent so if it has parts that this upstream would refuse, such as thinking with a
// signature of ours (Altered), or if it may hide an address and the upstream is in the operator's
// network (Loose and Inside).
func (a *Adapter) openOriginal(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	o := call.Request.Original
	if o == nil || o.Dialect != chat.DialectMessages || o.Altered || o.Loose && call.Inside {
		return nil, nil
	}
	switch {
	case o.Thread.Previous == "":
	case !a.first:
		return nil, nil // which refuses it
	case !call.Continues:
		return nil, provider.LostThread()
	}
	call.Dropped = nil
	body, err := a.quote(call)
	if body == nil || err != nil {
		return nil, err
	}
	header, err := a.headerOf(call)
	if err != nil {
		return nil, err
	}
	call.Threaded = a.first && o.Thread.Wanted
	s := &stream{called: a.served(call)}
	s.Words = &provider.Words{}
	own := *call
	own.Memory = nil // the caller sends the thinking back itself
	s.Start(ctx, &own, dialect, claude.ToolNames{}, false)
	call.Quoted = true // also of a request that is refused: its error is about the caller's words
	if err := a.PostFor(ctx, &s.Decoded, a.messages, header, body); err != nil {
		return nil, err
	}
	return s, nil
}

// quote returns the caller's body as this upstream may get it; nil if it cannot be sent so.
func (a *Adapter) quote(call *provider.Call) ([]byte, error) {
	allowed, dropped, err := chat.Withhold(allowance.Messages, call.Request.Original.Body, call.Allow)
	if err != nil {
		return nil, err
	}
	for _, name := range dropped {
		call.Omit(name)
	}
	if !a.first {
		allowed = withoutOwn(call, allowed)
	}
	body, ok := patch(allowed, call.Upstream, call.Request.MaxTokens, call.Limit())
	if !ok {
		return nil, nil
	}
	return marked(body, call.Marks), nil
}

// withoutOwn returns a body without what only Anthropic's own API knows: threads, which nobody else holds, and what Claude
// Code says of itself.
func withoutOwn(call *provider.Call, body []byte) []byte {
	thread := call.Request.Original.Thread.Wanted
	if !thread && !bytes.Contains(body, []byte("x-anthropic-billing-header:")) {
		return body // nearly every one
	}
	if thread {
		call.Omit("thread")
	}
	return chat.Edited(body, func(key string, v chat.Value) []byte {
		switch {
		case key == "thread":
			return nil
		case key == "system" && v.Kind() == '[':
			return unattributed(v)
		case key == "system" && v.IsText() && chat.IsAttribution(v):
			return nil
		}
		return v.Raw()
	})
}

// unattributed returns the blocks of system without those in which Claude Code speaks of itself; nil if none is left.
func unattributed(system chat.Value) []byte {
	out := []byte{'['}
	for b := system.Walk(); b.Next(); {
		if text := b.Value.Member("text"); text.IsText() && chat.IsAttribution(text) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, b.Value.Raw()...)
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, ']')
}

// headerOf returns the headers of a call in its caller's words: ours, and the caller's of the dialect that it may send.
func (a *Adapter) headerOf(call *provider.Call) (http.Header, error) {
	header := call.Header(a.header)
	given := call.Request.Original.Header
	if len(given) == 0 {
		return header, nil
	}
	header = header.Clone()
	for name, values := range given {
		if name == "Anthropic-Beta" {
			if values = a.features(call, values); len(values) == 0 {
				continue
			}
		}
		if e := allowance.Header(name); e != nil && !call.Allow.Has(e) {
			if e.Refused&allowance.Messages != 0 {
				return nil, chat.Unallowed(strings.ToLower(name), e)
			}
			call.Omit(strings.ToLower(name))
			continue
		}
		header[name] = values
	}
	return header, nil
}

// threads is what the values of the beta of threads begin with.
const threads = "message-threads-"

// features returns the features that the caller has switched on and may: some have prices, or reach what is stored at the
// vendor.
func (a *Adapter) features(call *provider.Call, all []string) (allowed []string) {
	for _, list := range all {
		kept := list
		for value := range strings.SplitSeq(list, ",") {
			name := strings.TrimSpace(value)
			if e := allowance.Beta(name); e != nil && !call.Allow.Has(e) {
				kept = without(kept, value)
				call.Omit(featuresHeader + "." + e.Name)
			}
			if !a.first && strings.HasPrefix(name, threads) {
				kept = without(kept, value)
				call.Omit(featuresHeader + ".message-threads")
			}
		}
		if kept != "" {
			allowed = append(allowed, kept)
		}
	}
	return allowed
}

// featuresHeader is the name of the header, as x-sluice-dropped has it.
const featuresHeader = "anthropic-beta"

// without returns a list without one of its values.
func without(list, value string) string {
	values := strings.Split(list, ",")
	values = slices.DeleteFunc(values, func(v string) bool { return v == value })
	return strings.Join(values, ",")
}

// maxDepth bounds the nesting of a caller's body, which was checked when it was read.
const maxDepth = 128

// patch returns the body with another model, and with a bound on the reply of most tokens if that is less than the
// caller's. It reports false if the body cannot be patched, or if the new bound leaves no room after the thinking.
//
// Everything else stays as it is, byte by byte: a prompt that the vendor has cached is recognized
// by its bytes.
func patch(body []byte, model string, asked, most int) ([]byte, bool) {
	out := make([]byte, 0, len(body)+len(model))
	c := jsonscan.Cursor{Body: body}
	from, budget := 0, 0 // what stands before from is in out
	replace := func(with []byte) bool {
		out = append(out, body[from:c.Pos]...)
		if !c.Skip(maxDepth) {
			return false
		}
		out, from = append(out, with...), c.Pos
		return true
	}
	ok := c.Members(func(key []byte) bool {
		switch {
		case string(key) == "model":
			return replace(jsonscan.AppendQuoted(nil, model))
		case string(key) == "max_tokens" && most < asked:
			return replace(strconv.AppendInt(nil, int64(most), 10))
		case string(key) == "thinking" && most < asked:
			at := c.Pos
			var w struct {
				Budget int `json:"budget_tokens"`
			}
			ok := c.Skip(maxDepth)
			budget = 0
			if ok && json.Unmarshal(body[at:c.Pos], &w) == nil {
				budget = w.Budget
			}
			return ok
		}
		return c.Skip(maxDepth)
	})
	return append(out, body[from:]...), ok && (most >= asked || budget < most)
}
