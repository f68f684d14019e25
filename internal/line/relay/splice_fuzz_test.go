package relay

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/upstream/provider"
)

// seeds are the chunks, or the bodies, of all transcripts.
func seeds(f *testing.F, whole bool) (raws []string) {
	for _, c := range transcripts(f) {
		if whole != (c.contentType == "application/json") {
			continue
		}
		if whole {
			raws = append(raws, c.upstream)
			continue
		}
		for line := range strings.Lines(c.upstream) {
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
				raws = append(raws, data)
			}
		}
	}
	return raws
}

// FuzzScan holds the scanner to encoding/json: what it accepts is JSON, and what it found in it is
// what a decoder finds.
func FuzzScan(f *testing.F) {
	for _, raw := range append(seeds(f, false), seeds(f, true)...) {
		f.Add([]byte(raw), true)
		f.Add([]byte(raw), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, whole bool) {
		part := "delta"
		if whole {
			part = "message"
		}
		sh, ok := scanReply(raw, part)
		if !ok {
			return
		}
		v, err := decodeObject(raw)
		if err != nil {
			t.Fatalf("scanReply(%q) accepts what is no JSON object: %v", raw, err)
		}
		if v["error"] != nil {
			t.Errorf("scanReply(%q) accepts an error", raw)
		}
		choices, _ := v["choices"].([]any)
		if (len(choices) == 1) != sh.one || len(choices) > 1 {
			t.Fatalf("scanReply(%q): one choice %t, want %d", raw, sh.one, len(choices))
		}
		var array []any
		if err := json.Unmarshal(raw[sh.choices.from:sh.choices.to], &array); err != nil || len(array) != len(choices) {
			t.Errorf("scanReply(%q): the choices are %q", raw, raw[sh.choices.from:sh.choices.to])
		}
		if !sh.one {
			return
		}
		c := choices[0].(object)
		p, ok := c[part].(object)
		if !ok || number(c["index"]) != sh.index || sh.bare != (len(p) == 0) || sh.role != (p["role"] == "assistant") {
			t.Errorf("scanReply(%q) = %+v, want what is in %v", raw, sh, c)
		}
		reason, has := c["finish_reason"]
		if s, _ := reason.(string); has != sh.hasFinish || s != string(sh.finish) {
			t.Errorf("scanReply(%q): finish %q, %t, want %v, %t", raw, sh.finish, sh.hasFinish, reason, has)
		}
		for key, text := range map[string]span{"content": sh.content, "reasoning_content": sh.reasoning, "refusal": sh.refusal} {
			want, _ := p[key].(string)
			if got := inside(t, raw[text.from:text.to]); got != want {
				t.Errorf("scanReply(%q): %s is %q, want %q", raw, key, got, want)
			}
		}
	})
}

// inside decodes the inside of a JSON string.
func inside(t *testing.T, raw []byte) (s string) {
	t.Helper()
	if err := json.Unmarshal([]byte(`"`+string(raw)+`"`), &s); err != nil {
		t.Errorf("%q is not the inside of a string: %v", raw, err)
	}
	return s
}

// oracle does what splice does in the slow way: decode, change, encode.
type oracle struct {
	begun, finished [2]bool
	text, reasoning string
	tier            string
}

// want is the chunks that a caller must get for one of the upstream's.
func (o *oracle) want(v object) (chunks []any) {
	if tier, _ := v["service_tier"].(string); provider.TierOf(tier) != "" {
		o.tier = tier
	}
	choices, _ := v["choices"].([]any)
	if len(choices) == 0 {
		return nil
	}
	c := choices[0].(object)
	i := number(c["index"])
	if i >= len(o.begun) || o.finished[i] {
		return nil
	}
	delta := c["delta"].(object)
	if !o.begun[i] && delta["role"] == nil {
		chunks = append(chunks, o.headed([]any{object{"index": c["index"], "delta": object{"role": "assistant", "content": ""}, "finish_reason": nil}}))
	}
	o.begun[i], o.finished[i] = true, c["finish_reason"] != nil
	for _, key := range []string{"content", "refusal"} {
		s, _ := delta[key].(string)
		o.text += s
	}
	s, _ := delta["reasoning_content"].(string)
	o.reasoning += s
	return append(chunks, o.headed(choices))
}

func (o *oracle) headed(choices []any) object {
	v := object{"id": "chatcmpl-r", "object": "chat.completion.chunk", "created": json.Number("1700000000"), "model": "catalog/m", "choices": choices}
	if o.tier != "" {
		v["service_tier"] = o.tier
	}
	return v
}

// FuzzSplice sends three chunks down one stream. For each that is handed on as it is, the caller must
// get the same as from decode, change, encode: splice is only faster.
func FuzzSplice(f *testing.F) {
	raws := seeds(f, false)
	for i, raw := range raws {
		before, behind := raws[max(0, i-1)], raws[min(len(raws)-1, i+1)]
		f.Add([]byte(before), []byte(raw), []byte(behind))
		f.Add([]byte(raw), []byte(raw), []byte(strings.ReplaceAll(raw, `"a"`, `"b"`)))
	}
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		s := &streamer{reply: newReply(testHead, &Options{N: 2}), w: &discard{http.Header{}}}
		s.prefix = appendHead([]byte("data: "), testHead, "chat.completion.chunk")
		var o oracle
		for _, raw := range [][]byte{first, second, third} {
			if bytes.ContainsAny(raw, "\r") {
				return // the reader of events leaves none
			}
			s.out = s.out[:0]
			if !s.splice(raw) {
				return
			}
			v, err := decodeObject(raw)
			if err != nil {
				t.Fatalf("splice(%q) accepts what is no JSON object: %v", raw, err)
			}
			if diff := cmp.Diff(o.want(v), chunksOf(t, s.out)); diff != "" {
				t.Fatalf("splice(%q): -want +got\n%s", raw, diff)
			}
			wantUsage, err := json.Marshal(v["usage"])
			if err != nil {
				t.Fatal(err)
			}
			if u, ok := provider.ReadUsage(wantUsage); ok && (!s.outcome.HasUsage || s.outcome.Usage != u) {
				t.Errorf("splice(%q): usage %+v, want %+v", raw, s.outcome.Usage, u)
			}
			if text, reasoning, _ := s.outcome.Produced(); text != o.text || reasoning != o.reasoning {
				t.Errorf("splice(%q): produced %q and %q, want %q and %q", raw, text, reasoning, o.text, o.reasoning)
			}
			if s.outcome.FirstContent.IsZero() != (o.text+o.reasoning == "") {
				t.Errorf("splice(%q): first content %v", raw, s.outcome.FirstContent)
			}
		}
	})
}

// chunksOf decodes the events of an output.
func chunksOf(t *testing.T, out []byte) (chunks []any) {
	t.Helper()
	for len(out) > 0 {
		event, rest, ok := bytes.Cut(out, []byte("\n\n"))
		data, isData := bytes.CutPrefix(event, []byte("data: "))
		if !ok || !isData || bytes.ContainsAny(data, "\r\n") {
			t.Fatalf("%q is not an event of one line", out)
		}
		v, err := decodeObject(data)
		if err != nil {
			t.Fatalf("%q is no JSON object: %v", data, err)
		}
		chunks, out = append(chunks, v), rest
	}
	return chunks
}

// FuzzCollect holds whole replies to the same oracle, and every reply that goes out to the contract.
func FuzzCollect(f *testing.F) {
	for _, raw := range seeds(f, true) {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := &collector{reply: newReply(testHead, &Options{N: 1})}
		spliced := c.splice(raw)
		r, err := send(t.Context(), &played{events: []provider.Event{{Kind: provider.Whole, Raw: raw}}}, false, Options{N: 1})
		if err != nil {
			settled := len(r.settled) > 1 || len(r.settled) == 1 && r.settled[0].outcome.FirstContent.IsZero()
			if !isPlain(err) || r.body.Len() > 0 || settled || spliced {
				t.Fatalf("Collect(%q) = %v with %d bytes and %d settlements", raw, err, r.body.Len(), len(r.settled))
			}
			return
		}
		v, err := decodeObject([]byte(r.body.String()))
		if err != nil {
			t.Fatalf("Collect(%q) sends %q, which is no JSON object: %v", raw, r.body.String(), err)
		}
		if spliced {
			upstreams, err := decodeObject(raw)
			if err != nil {
				t.Fatalf("splice(%q) accepts what is no JSON object: %v", raw, err)
			}
			completed(upstreams["choices"].([]any)[0].(object))
			if diff := cmp.Diff(upstreams["choices"], v["choices"]); diff != "" {
				t.Errorf("splice(%q): -want +got\n%s", raw, diff)
			}
		}
		if problem := brokenWhole(v); problem != "" {
			t.Errorf("Collect(%q) sends %s: %s", raw, r.body.String(), problem)
		}
	})
}

// brokenWhole says what is wrong with a chat.completion of one choice.
func brokenWhole(v object) string {
	u, _ := v["usage"].(object)
	choices, _ := v["choices"].([]any)
	want := "choices created id model object system_fingerprint usage"
	if tier, ok := v["service_tier"].(string); ok && provider.TierOf(tier) != "" {
		want = strings.Replace(want, "system", "service_tier system", 1)
	}
	if keys(v) != want || v["object"] != "chat.completion" || len(choices) != 1 {
		return "the head"
	}
	if prompt, completion := number(u["prompt_tokens"]), number(u["completion_tokens"]); prompt < 0 || completion < 0 || number(u["total_tokens"]) != prompt+completion {
		return "the usage"
	}
	c, _ := choices[0].(object)
	message, _ := c["message"].(object)
	finish, _ := c["finish_reason"].(string)
	calls, _ := message["tool_calls"].([]any)
	_, hasText := message["content"].(string)
	refusal, hasRefusal := message["refusal"]
	_, hasLogprobs := c["logprobs"]
	_, hasContent := message["content"]
	_, hasAudio := message["audio"].(object)
	switch {
	case !hasRefusal || !hasLogprobs || !hasContent:
		return "a member that clients expect is missing"
	case number(c["index"]) != 0 || message["role"] != "assistant" || c["error"] != nil:
		return "the choice"
	case !hasText && len(calls) == 0 && refusal == nil && !hasAudio && message["annotations"] == nil:
		return "neither text nor calls"
	case (finish == "tool_calls") && len(calls) == 0 || finish == "stop" && len(calls) > 0 || finish == "":
		return "the finish reason"
	}
	for _, call := range calls {
		w, _ := call.(object)
		asFunction(w)
		function, _ := w["function"].(object)
		arguments, _ := function["arguments"].(string)
		if keys(w) != "function id type" || keys(function) != "arguments name" || w["id"] == "" || w["type"] != "function" || arguments == "" {
			return "a call"
		}
	}
	return ""
}

// FuzzStream lets any bytes come down from an upstream. Whatever they are, the caller gets a stream
// that keeps the rules, or a plain fault.
func FuzzStream(f *testing.F) {
	for _, c := range transcripts(f) {
		f.Add([]byte(c.upstream), c.contentType == "application/json", uint8(c.opts.N), c.opts.IncludeUsage)
	}
	f.Fuzz(func(t *testing.T, raw []byte, whole bool, n uint8, usage bool) {
		contentType := "text/event-stream"
		if whole {
			contentType = "application/json"
		}
		opts := Options{N: int(n % 4), IncludeUsage: usage}
		c, err := relayed(t, contentType, bytes.NewReader(raw), true, opts)
		for _, problem := range broken(c, err, opts) {
			t.Errorf("%q, n %d: %s\nthe caller got %s", raw, opts.N, problem, c.body.String())
		}
	})
}
