package vendortest

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// converseDialect is Converse and ConverseStream with a Claude behind them (docs.aws.amazon.com/bedrock/latest/APIReference).
var converseDialect = dialect{path: "/converse", read: readConverse, write: writeConverse, fail: failConverse, faults: map[string]refusal{
	"invalid":    {status: 400, amznType: "ValidationException", message: "The request is not valid."},
	"long":       {status: 400, amznType: "ValidationException", message: "The model returned the following errors: prompt is too long: 1200000 tokens > 1000000 maximum"},
	"auth":       {status: 403, amznType: "UnrecognizedClientException", message: "The security token included in the request is invalid."},
	"rate":       {status: 429, amznType: "ThrottlingException", message: "Too many requests, please wait before trying again."},
	"overloaded": {status: 503, amznType: "ServiceUnavailableException", message: "Bedrock is unable to process your request."},
	"broken":     {status: 500, amznType: "InternalServerException", message: "The system encountered an unexpected error."},
}}

func failConverse(x *exchange, r *refusal) {
	kind := r.amznType
	if kind == "" {
		kind = "ValidationException"
	}
	x.w.Header().Set("X-Amzn-Errortype", kind)
	x.w.WriteHeader(r.status)
	fmt.Fprint(x.w, encode(object{"message": r.message}))
}

func readConverse(x *exchange) (*asked, *refusal) {
	_, name, _ := strings.Cut(x.r.URL.EscapedPath(), "/model/")
	name, _, _ = strings.Cut(name, "/converse")
	model, _ := url.PathUnescape(name)
	b := x.body
	more := member(b["additionalModelRequestFields"])
	a := &asked{model: model, stream: strings.HasSuffix(x.r.URL.Path, "/converse-stream"), schema: member(member(b["outputConfig"])["textFormat"]) != nil}
	a.tools = len(list(member(b["toolConfig"])["tools"])) > 0
	for _, t := range list(member(b["toolConfig"])["tools"]) {
		a.offer("", member(member(t)["toolSpec"]), "inputSchema")
	}
	if !strings.Contains(x.r.Header.Get("Authorization"), "/bedrock/aws4_request") {
		return nil, &refusal{status: http.StatusForbidden, amznType: "MissingAuthenticationTokenException", message: "Missing Authentication Token"}
	}
	if bad := only(b, names("messages system inferenceConfig toolConfig additionalModelRequestFields additionalModelResponseFieldPaths outputConfig guardrailConfig performanceConfig requestMetadata serviceTier")...); bad != "" {
		return nil, refuse("", "", "1 validation error detected: unknown member %s", bad)
	}
	if bad := only(more, names("thinking tool_choice anthropic_beta output_config top_k")...); bad != "" {
		return nil, refuse("", "", "The model returned the following errors: %s: Extra inputs are not permitted", bad)
	}
	for _, name := range names("temperature topP") {
		if _, ok := member(b["inferenceConfig"])[name]; ok {
			return nil, refuse("", "", "The model returned the following errors: `%s` is deprecated for this model.", name)
		}
	}
	// What Claude itself refuses is the same as in its own API.
	own := &exchange{Vendor: x.Vendor, r: x.r, body: object{"thinking": more["thinking"], "output_config": b["outputConfig"]}}
	binding := member(more["thinking"])["block_binding"]
	if binding != nil && !strings.Contains(encode(more["anthropic_beta"]), bindingBeta) {
		return nil, refuse("", "", "The model returned the following errors: thinking.block_binding: Extra inputs are not permitted")
	}
	delete(member(own.body["thinking"]), "block_binding")
	if wrong := own.checkThinking(a); wrong != nil {
		return nil, wrong
	}
	if wrong := x.checkPoints(a); wrong != nil {
		return nil, wrong
	}
	if wrong := x.consult(a, member(b["toolConfig"])["tools"]); wrong != nil {
		return nil, wrong
	}
	return a, x.readTurns(a, binding != nil && member(binding)["prefix_mismatch_behavior"] == "drop_block")
}

// checkPoints counts what shall be kept in a cache. A point stands behind something.
func (x *exchange) checkPoints(a *asked) *refusal {
	lists := []any{x.body["system"], member(x.body["toolConfig"])["tools"]}
	for _, m := range list(x.body["messages"]) {
		lists = append(lists, member(m)["content"])
	}
	for _, blocks := range lists {
		for i, b := range list(blocks) {
			point, ok := member(b)["cachePoint"].(object)
			if !ok {
				continue
			}
			if a.marks++; i == 0 || point["type"] != "default" || only(point, "type", "ttl") != "" || len(member(b)) > 1 {
				return refuse("", "", "The model returned the following errors: a cachePoint is malformed.")
			}
			if point["ttl"] == "1h" {
				a.hour++
			}
		}
	}
	if a.marks > 4 {
		return refuse("", "", "The model returned the following errors: A maximum of 4 blocks with cache_control may be provided. Found %d.", a.marks)
	}
	return nil
}

// readTurns checks the turns, and the thinking in them.
func (x *exchange) readTurns(a *asked, drops bool) *refusal {
	prefix := bare(x.body["system"]) + bare(member(x.body["toolConfig"])["tools"])
	open, role := map[string]bool{}, "assistant"
	for i, m := range list(x.body["messages"]) {
		m := member(m)
		if m["role"] == role {
			return refuse("", "", "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.")
		}
		role = text(m["role"])
		for j, p := range list(m["content"]) {
			if wrong := x.readBlock(a, member(p), open, prefix, drops, fmt.Sprintf("messages.%d.content.%d", i, j)); wrong != nil {
				return wrong
			}
		}
		if role == "user" && len(open) > 0 {
			return refuse("", "", "Expected toolResult blocks at messages.%d.content for the following Ids: %v", i, open)
		}
		prefix += "\n" + role + bare(m["content"])
	}
	if role != "user" {
		return refuse("", "", "The conversation must end with a user message.")
	}
	a.prefix = prefix
	return nil
}

func (x *exchange) readBlock(a *asked, b object, open map[string]bool, prefix string, drops bool, at string) *refusal {
	if (b["toolUse"] != nil || b["toolResult"] != nil) && x.body["toolConfig"] == nil {
		return refuse("", "", "The toolConfig field must be defined when using toolUse and toolResult content blocks.")
	}
	switch {
	case b["toolUse"] != nil:
		open[text(member(b["toolUse"])["toolUseId"])] = true
	case b["toolResult"] != nil:
		result := member(b["toolResult"])
		id := text(result["toolUseId"])
		if !open[id] {
			return refuse("", "", "The number of toolResult blocks at %s exceeds the number of toolUse blocks of previous turn.", at)
		}
		if a.text != "" {
			a.results, a.text = nil, ""
		}
		delete(open, id)
		for _, p := range list(result["content"]) {
			a.returns(text(member(p)["text"]))
		}
	case b["image"] != nil:
		a.images++
	case b["reasoningContent"] != nil:
		signature := text(member(member(b["reasoningContent"])["reasoningText"])["signature"])
		if wrong := x.bound(a, signature, prefix); wrong != "" && !drops {
			return refuse("", "", "The model returned the following errors: %s: Invalid `signature` in `thinking` block. %s", at, wrong)
		}
		a.last = signature
	case b["text"] != nil:
		if strings.TrimSpace(text(b["text"])) == "" {
			return refuse("", "", "The text field in the ContentBlock object at %s is blank. Add text to the text field, and try again.", at)
		}
		a.results, a.text = nil, text(b["text"])
	}
	return nil
}

func writeConverse(x *exchange, a *asked, r *reply) {
	content := []any{}
	if r.signature != "" {
		content = append(content, object{"reasoningContent": object{"reasoningText": object{"text": r.thinking, "signature": r.signature}}})
	}
	if r.text != nil {
		content = append(content, object{"text": strings.Join(r.text, "")})
	}
	for _, c := range r.calls {
		content = append(content, object{"toolUse": object{"toolUseId": strings.Replace(c.id, "call_", "tooluse_", 1), "name": c.name, "input": decoded(c.arguments)}})
	}
	stop := either(len(r.calls) > 0, "tool_use", either(r.refused, "content_filtered", "end_turn"))
	usage := object{"inputTokens": 20, "outputTokens": 5, "totalTokens": 25}
	if f := a.kept; f != nil {
		usage = object{
			"inputTokens": f.Fresh, "outputTokens": 5, "totalTokens": f.Fresh + 5, "cacheReadInputTokens": f.Read, "cacheWriteInputTokens": f.Short + f.Long,
			"cacheDetails": []any{object{"ttl": "5m", "inputTokens": f.Short}, object{"ttl": "1h", "inputTokens": f.Long}},
		}
	} else if a.marks > 0 {
		usage["cacheWriteInputTokens"] = 7 * a.marks
		usage["cacheDetails"] = []any{object{"ttl": "1h", "inputTokens": 7 * a.hour}, object{"ttl": "5m", "inputTokens": 7 * (a.marks - a.hour)}}
	}
	if !a.stream {
		fmt.Fprint(x.w, encode(object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": stop, "usage": usage, "metrics": object{"latencyMs": 1}}))
		return
	}
	x.w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	x.frame("event", "messageStart", object{"role": "assistant"})
	for i, b := range content {
		b := member(b)
		delta := func(o object) { x.frame("event", "contentBlockDelta", object{"contentBlockIndex": i, "delta": o}) }
		switch {
		case b["reasoningContent"] != nil:
			delta(object{"reasoningContent": object{"text": r.thinking}})
			delta(object{"reasoningContent": object{"signature": r.signature}})
		case b["toolUse"] != nil:
			use := member(b["toolUse"])
			x.frame("event", "contentBlockStart", object{"contentBlockIndex": i, "start": object{"toolUse": object{"toolUseId": use["toolUseId"], "name": use["name"]}}})
			delta(object{"toolUse": object{"input": encode(use["input"])}})
		default:
			for _, s := range r.text {
				delta(object{"text": s})
				if r.cut {
					x.abort()
				}
				if r.late {
					x.frame("exception", "modelStreamErrorException", object{"message": "The model failed."})
					return
				}
			}
		}
		x.frame("event", "contentBlockStop", object{"contentBlockIndex": i})
	}
	x.frame("event", "messageStop", object{"stopReason": stop})
	x.frame("event", "metadata", object{"usage": usage, "metrics": object{"latencyMs": 1}})
}

// frame writes one message of a stream.
func (x *exchange) frame(kind, name string, payload object) {
	m := eventstream.Message{Payload: []byte(encode(payload))}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err) // the fake's own values always encode
	}
	_, _ = x.w.Write(b.Bytes())
	x.flush()
}
