package providertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Claude is a fake of Anthropic's Messages API that is as strict as the vendor about thinking which comes back. It
// checks every block of it, byte by byte: the system prompt, the tools and the messages before it must be what they were
// when the block was made; the blocks before it must be the last ones of those that were there then; and the key must be
// the one that made it, for models whose thinking belongs to an account. What the vendor refuses it refuses, with the
// vendor's words.
//
// It answers a question that has the word "look" with a call of the first tool, and all others with a text. Every reply
// has thinking unless that is turned off. It may be used by several goroutines at once.
type Claude struct {
	mu       sync.Mutex
	requests []ClaudeRequest
	made     int // blocks of thinking so far
	// Unbound is whether the account is an old one, which is not held to what came before a block unless the request
	// asks for it.
	Unbound bool
	// Betas are the features that the API knows; nil: it knows that of thinking.
	Betas []string
}

// ClaudeRequest is what became of one request.
type ClaudeRequest struct {
	Key, Model string
	Thoughts   int    // blocks of thinking that came back and were taken
	Turns      int    // turns of the assistant in it
	Dropped    int    // blocks of thinking that were dropped
	Refused    string // why the request was refused; empty if it was not
	Choice     string // the type of its tool_choice
}

// BindingBeta is the feature that lets a request say what becomes of thinking that does not fit.
const BindingBeta = "thinking-binding-controls-2026-08-01"

// Requests returns what became of the requests so far, and forgets it.
func (c *Claude) Requests() []ClaudeRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.requests
	c.requests = nil
	return all
}

// claudeBlock is a content block, as JSON has it.
type claudeBlock = map[string]any

// claudeBody is a request.
type claudeBody struct {
	Model    string        `json:"model"`
	Max      int           `json:"max_tokens"`
	System   []claudeBlock `json:"system"`
	Tools    []claudeBlock `json:"tools"`
	Messages []struct {
		Role    string        `json:"role"`
		Content []claudeBlock `json:"content"`
	} `json:"messages"`
	Choice struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type    string `json:"type"`
		Binding *struct {
			Mismatch string `json:"prefix_mismatch_behavior"`
		} `json:"block_binding"`
	} `json:"thinking"`
	Output struct {
		Effort string `json:"effort"`
	} `json:"output_config"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	Stream      bool     `json:"stream"`
}

// signature is what the fake writes into a block.
type signature struct {
	Key, Model   string
	Text, Prefix string   // hashes
	Before       []string // the hashes of the blocks of thinking before it
	Number       int      // no two blocks are the same
}

// claudeRules are the rules about models that the fake knows.
type claudeRules struct{ binds, account, forced, off, instructs bool }

// claudeModels are the models that the fake serves.
var claudeModels = map[string]claudeRules{
	"claude-opus-4-6":   {forced: true, off: true},
	"claude-opus-5":     {forced: true, off: true, instructs: true},
	"claude-opus-5-5":   {binds: true, instructs: true},
	"claude-fable-5-2":  {binds: true, instructs: true},
	"claude-sonnet-5-5": {binds: true, account: true, instructs: true},
	"claude-haiku-5-5":  {binds: true, account: true, forced: true, off: true, instructs: true},
}

// ServeHTTP implements http.Handler.
func (c *Claude) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var b claudeBody
	if err := json.Unmarshal(raw, &b); err != nil {
		c.refuse(w, &ClaudeRequest{}, err.Error())
		return
	}
	done := &ClaudeRequest{Key: r.Header.Get("X-Api-Key"), Model: b.Model, Choice: b.Choice.Type}
	for i := range b.Messages {
		if b.Messages[i].Role == "assistant" {
			done.Turns++
		}
	}
	if why := c.check(&b, r.Header.Get("Anthropic-Beta")); why != "" {
		c.refuse(w, done, why)
		return
	}
	sent, dropped, why := c.thoughts(&b, done.Key)
	if why != "" {
		c.refuse(w, done, why)
		return
	}
	done.Thoughts, done.Dropped = len(sent), len(dropped)
	c.note(done)
	c.reply(w, &b, done.Key, sent, dropped)
}

// note remembers what became of a request.
func (c *Claude) note(r *ClaudeRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, *r)
}

// refuse answers with the vendor's error.
func (c *Claude) refuse(w http.ResponseWriter, r *ClaudeRequest, why string) {
	r.Refused = why
	c.note(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, Encode(claudeBlock{"type": "error", "error": claudeBlock{"type": "invalid_request_error", "message": why}}))
}

// check returns why a request is refused whatever its thinking is; empty if it is not.
func (c *Claude) check(b *claudeBody, betas string) string {
	known := c.Betas
	if known == nil {
		known = []string{BindingBeta}
	}
	for beta := range strings.SplitSeq(betas, ",") {
		if beta != "" && !slices.Contains(known, strings.TrimSpace(beta)) {
			return "Unexpected value(s) `" + beta + "` for the `anthropic-beta` header."
		}
	}
	rules, ok := claudeModels[b.Model]
	switch {
	case !ok:
		return "model: " + b.Model
	case b.Max <= 0:
		return "max_tokens: Field required"
	case b.Temperature != nil || b.TopP != nil:
		return "`temperature` and `top_p` are not supported on this model."
	case !rules.forced && (b.Choice.Type == "any" || b.Choice.Type == "tool"):
		return "tool_choice: forced tool use is not supported on this model."
	case b.Output.Effort == "minimal" || b.Output.Effort == "none":
		return "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
	}
	if why := c.thinking(b, &rules, betas); why != "" {
		return why
	}
	return b.conversation(&rules)
}

// thinking returns why the thinking member of a request is refused.
func (c *Claude) thinking(b *claudeBody, rules *claudeRules, betas string) string {
	t := b.Thinking
	if t == nil {
		return ""
	}
	low := b.Output.Effort != "xhigh" && b.Output.Effort != "max"
	switch {
	case t.Type == "adaptive":
	case t.Type == "disabled" && rules.off && low:
	case t.Type == "between_tools" && b.Model == "claude-sonnet-5-5" && low:
	default:
		return `"thinking.type.` + t.Type + `" is not supported for this model.`
	}
	switch {
	case t.Binding == nil:
	case !strings.Contains(betas, BindingBeta):
		return "thinking.adaptive.block_binding: Extra inputs are not permitted"
	case t.Type != "adaptive" || !rules.binds:
		return "thinking." + t.Type + ".block_binding: Extra inputs are not permitted"
	}
	return ""
}

// conversation returns why the messages are refused: whose turn it is, where system messages stand, what calls need.
func (b *claudeBody) conversation(rules *claudeRules) string {
	var calls []any // of the last turn
	for i, m := range b.Messages {
		before := ""
		if i > 0 {
			before = b.Messages[i-1].Role
		}
		switch {
		case len(m.Content) == 0:
			return fmt.Sprintf("messages.%d: content must not be empty", i)
		case i == 0 && m.Role != "user", m.Role == before:
			return fmt.Sprintf("messages.%d: roles must alternate", i)
		case m.Role == "system" && (!rules.instructs || before != "user"):
			return fmt.Sprintf("messages.%d: role 'system' must follow a user message", i)
		case before == "system" && m.Role != "assistant":
			return fmt.Sprintf("messages.%d: role 'system' must stand before an assistant message or at the end", i-1)
		}
		var results []any
		for j, k := range m.Content {
			if k["type"] == "text" && strings.TrimSpace(fmt.Sprint(k["text"])) == "" {
				return fmt.Sprintf("messages.%d.content.%d: text content blocks must contain non-whitespace text", i, j)
			}
			if k["type"] == "tool_result" {
				results = append(results, k["tool_use_id"])
			}
		}
		if m.Role != "system" && !slices.Equal(calls, results) {
			return fmt.Sprintf("messages.%d: `tool_use` ids %v were found without `tool_result` blocks %v immediately after", i, calls, results)
		}
		if m.Role != "system" {
			calls = idsOf(m.Content)
		}
		if len(calls) > 0 && len(b.Tools) == 0 {
			return "Requests which include `tool_use` or `tool_result` blocks must define tools"
		}
	}
	if last := b.Messages[len(b.Messages)-1]; last.Role == "assistant" {
		return "This model does not support assistant message prefill. The conversation must end with a user message."
	}
	return ""
}

// idsOf returns the ids of the calls in a turn.
func idsOf(content []claudeBlock) (ids []any) {
	for _, k := range content {
		if k["type"] == "tool_use" {
			ids = append(ids, k["id"])
		}
	}
	return ids
}

// thoughts checks the thinking in a request. It returns the hashes of the blocks that the model reads, and the paths of
// those that were dropped, or why the request is refused.
func (c *Claude) thoughts(b *claudeBody, key string) (sent, dropped []string, why string) {
	rules := claudeModels[b.Model]
	drop := b.Thinking != nil && b.Thinking.Binding != nil && b.Thinking.Binding.Mismatch == "drop_block"
	invalid := false
	for i, m := range b.Messages {
		for j, k := range m.Content {
			signed, ok := signedBy(k)
			if !ok {
				continue
			}
			path := fmt.Sprintf("messages.%d.content.%d", i, j)
			switch {
			case signed == nil || rules.account && signed.Key != key:
				return nil, nil, path + ": Invalid `signature` in `thinking` block"
			case signed.Model != b.Model: // the model cannot read it
				dropped = append(dropped, path)
				continue
			case rules.binds && (!c.Unbound || drop):
				invalid = invalid || signed.Prefix != b.prefix(i, j) || !endsWith(signed.Before, sent)
			}
			if invalid && !drop {
				return nil, nil, path + ": Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
			}
			if invalid {
				dropped = append(dropped, path)
			} else {
				sent = append(sent, hashOf(k))
			}
		}
	}
	return sent, dropped, ""
}

// endsWith reports whether a list is the end of another.
func endsWith(all, end []string) bool {
	return len(end) <= len(all) && slices.Equal(all[len(all)-len(end):], end)
}

// signedBy reports whether a block is one of thinking, and returns what its signature says; nil if it is none of ours or
// the text was changed.
func signedBy(k claudeBlock) (*signature, bool) {
	var text, from any
	switch k["type"] {
	case "thinking":
		text, from = k["thinking"], k["signature"]
	case "redacted_thinking":
		text, from = "", k["data"]
	default:
		return nil, false
	}
	var s signature
	raw, err := base64.StdEncoding.DecodeString(fmt.Sprint(from))
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Text != hashOf(text) {
		return nil, true
	}
	return &s, true
}

// sign returns a signature.
func (c *Claude) sign(b *claudeBody, key, text, prefix string, before []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	return base64.StdEncoding.EncodeToString([]byte(Encode(&signature{Key: key, Model: b.Model, Text: hashOf(text), Prefix: prefix, Before: before, Number: c.made})))
}

// hashOf returns a hash of a JSON value, whatever the order of its members is.
func hashOf(v any) string {
	sum := sha256.Sum256([]byte(Encode(v)))
	return hex.EncodeToString(sum[:8])
}

// prefix returns the hash of what stands before block j of message i: the system prompt, the tools and the messages,
// without thinking and without marks for the cache.
func (b *claudeBody) prefix(i, j int) string {
	all := []any{plainBlocks(b.System), plainBlocks(b.Tools)}
	for _, m := range b.Messages[:i] {
		all = append(all, m.Role, plainBlocks(m.Content))
	}
	if i < len(b.Messages) {
		return hashOf(append(all, plainBlocks(b.Messages[i].Content[:j])))
	}
	return hashOf(append(all, []claudeBlock{}))
}

// plainBlocks returns what the vendor compares of blocks.
func plainBlocks(blocks []claudeBlock) []claudeBlock {
	plain := []claudeBlock{}
	for _, k := range blocks {
		if k["type"] == "thinking" || k["type"] == "redacted_thinking" {
			continue
		}
		one := claudeBlock{}
		for name, v := range k {
			if name != "cache_control" {
				one[name] = v
			}
		}
		plain = append(plain, one)
	}
	return plain
}

// reply answers a request.
func (c *Claude) reply(w http.ResponseWriter, b *claudeBody, key string, sent, dropped []string) {
	content, stop := c.answer(b, key, sent)
	message := claudeBlock{"id": "msg_1", "type": "message", "role": "assistant", "model": b.Model, "stop_reason": stop, "stop_sequence": nil, "content": content}
	message["usage"] = claudeBlock{"input_tokens": 20, "output_tokens": 10, "output_tokens_details": claudeBlock{"thinking_tokens": 4}, "service_tier": "standard"}
	transformations := []any{}
	for _, path := range dropped {
		transformations = append(transformations, claudeBlock{"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"})
	}
	if b.Thinking != nil && b.Thinking.Binding != nil {
		message["input_transformations"] = transformations
	}
	if !b.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, Encode(message))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var out bytes.Buffer
	event := func(kind string, members claudeBlock) {
		members["type"] = kind
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", kind, Encode(members))
	}
	usage := message["usage"]
	message["content"], message["stop_reason"] = []any{}, nil
	event("message_start", claudeBlock{"message": message})
	for i, k := range content {
		streamBlock(event, i, k)
	}
	event("message_delta", claudeBlock{"delta": claudeBlock{"stop_reason": stop}, "usage": usage})
	event("message_stop", claudeBlock{})
	_, _ = out.WriteTo(w)
}

// streamBlock writes the events of one block.
func streamBlock(event func(string, claudeBlock), i int, k claudeBlock) {
	start := claudeBlock{}
	for name, v := range k {
		start[name] = v
	}
	var deltas []claudeBlock
	switch k["type"] {
	case "thinking":
		start["thinking"], start["signature"] = "", ""
		deltas = []claudeBlock{{"type": "thinking_delta", "thinking": k["thinking"]}, {"type": "signature_delta", "signature": k["signature"]}}
	case "text":
		text := fmt.Sprint(k["text"])
		start["text"] = ""
		deltas = []claudeBlock{{"type": "text_delta", "text": text[:len(text)/2]}, {"type": "text_delta", "text": text[len(text)/2:]}}
	case "tool_use":
		start["input"] = claudeBlock{}
		deltas = []claudeBlock{{"type": "input_json_delta", "partial_json": Encode(k["input"])}}
	}
	event("content_block_start", claudeBlock{"index": i, "content_block": start})
	for _, d := range deltas {
		event("content_block_delta", claudeBlock{"index": i, "delta": d})
	}
	event("content_block_stop", claudeBlock{"index": i})
}

// answer returns the blocks of a reply and its stop reason. A reply that calls a tool thinks twice, the second time
// hidden, between a text and the call.
func (c *Claude) answer(b *claudeBody, key string, sent []string) (content []claudeBlock, stop string) {
	n := len(b.Messages)
	last := Encode(b.Messages[n-1].Content)
	if b.Messages[n-1].Role == "system" {
		last = Encode(b.Messages[n-2].Content)
	}
	whole := *b
	whole.Messages = append(slices.Clone(b.Messages), b.Messages[n-1])
	think := func(text string, hidden bool) {
		if b.Thinking != nil && b.Thinking.Type != "adaptive" {
			return
		}
		whole.Messages[n].Role, whole.Messages[n].Content = "assistant", content
		if hidden {
			text = ""
		}
		k := claudeBlock{"type": "thinking", "thinking": text, "signature": c.sign(b, key, text, whole.prefix(n, len(content)), sent)}
		if hidden {
			k = claudeBlock{"type": "redacted_thinking", "data": k["signature"]}
		}
		content, sent = append(content, k), append(slices.Clone(sent), hashOf(k))
	}
	think(fmt.Sprintf("Thought %d.", n), false)
	if !strings.Contains(last, "look") || strings.Contains(last, "tool_result") || len(b.Tools) == 0 || b.Choice.Type == "none" {
		return append(content, claudeBlock{"type": "text", "text": fmt.Sprintf("Answer %d.", n)}), "end_turn"
	}
	content = append(content, claudeBlock{"type": "text", "text": "Let me see. "})
	think("", true)
	return append(content, claudeBlock{"type": "tool_use", "id": fmt.Sprintf("toolu_%s%d", hashOf(last)[:6], n), "name": b.Tools[0]["name"], "input": claudeBlock{"n": n}}), "tool_use"
}
