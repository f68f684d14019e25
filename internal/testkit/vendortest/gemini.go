package vendortest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// geminiDialect is generateContent and streamGenerateContent (ai.google.dev/api/generate-content), as Gemini 3.8 Flash takes it.
var geminiDialect = dialect{path: "enerateContent", read: readGemini, write: writeGemini, fail: failGemini, faults: map[string]refusal{
	"invalid":    {status: 400, kind: "INVALID_ARGUMENT", message: "Request contains an invalid argument."},
	"long":       {status: 400, kind: "INVALID_ARGUMENT", message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
	"auth":       {status: 400, kind: "INVALID_ARGUMENT", message: "API key not valid. Please pass a valid API key.", code: "API_KEY_INVALID"},
	"rate":       {status: 429, kind: "RESOURCE_EXHAUSTED", message: "You exceeded your current quota."},
	"overloaded": {status: 503, kind: "UNAVAILABLE", message: "The model is overloaded. Please try again later."},
	"broken":     {status: 500, kind: "INTERNAL", message: "An internal error has occurred."},
}}

func failGemini(x *exchange, r *refusal) {
	kind := r.kind
	if kind == "invalid_request_error" {
		kind = "INVALID_ARGUMENT"
	}
	e := object{"code": r.status, "message": r.message, "status": kind}
	if r.code != "" {
		e["details"] = []any{object{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": r.code, "domain": "googleapis.com"}}
	}
	x.w.WriteHeader(r.status)
	fmt.Fprint(x.w, encode(object{"error": e}))
}

// decoded returns the value of JSON that the fake wrote itself.
func decoded(s string) (v any) {
	_ = json.Unmarshal([]byte(s), &v)
	return v
}

// The names of members, by the path of their object.
var (
	geminiFields     = names("contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels serviceTier store")
	generationFields = names(`candidateCount maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty stopSequences responseMimeType responseJsonSchema responseSchema
		thinkingConfig responseLogprobs logprobs responseModalities mediaResolution`)
	partFields = names("text inlineData fileData functionCall functionResponse thought thoughtSignature")
)

func unknownName(name string) *refusal {
	return refuse("", "", "Invalid JSON payload received. Unknown name \"%s\": Cannot find field.", name)
}

func readGemini(x *exchange) (*asked, *refusal) {
	_, model, _ := strings.Cut(x.r.URL.Path, "/models/")
	model, method, _ := strings.Cut(model, ":")
	b, g := x.body, member(x.body["generationConfig"])
	a := &asked{model: model, stream: method == "streamGenerateContent", schema: g["responseJsonSchema"] != nil, thinks: true}
	if x.r.Header.Get("X-Goog-Api-Key") != "vendor-key" {
		return nil, &refusal{status: http.StatusForbidden, kind: "PERMISSION_DENIED", message: "Method doesn't allow unregistered callers."}
	}
	for _, known := range []struct {
		o     object
		names []string
	}{{b, geminiFields}, {g, generationFields}} {
		if name := only(known.o, known.names...); name != "" {
			return nil, unknownName(name)
		}
	}
	thinking := member(g["thinkingConfig"])
	switch level := text(thinking["thinkingLevel"]); {
	case level != "" && thinking["thinkingBudget"] != nil:
		return nil, refuse("", "", "You can only set one of thinking budget and thinking level.")
	case level != "" && !slices.Contains(names("LOW MEDIUM HIGH"), level):
		return nil, refuse("", "", "Thinking level %s is not supported for this model.", level)
	}
	for _, t := range list(b["tools"]) {
		a.tools = a.tools || len(list(member(t)["functionDeclarations"])) > 0
	}
	a.tools = a.tools && member(member(b["toolConfig"])["functionCallingConfig"])["mode"] != "NONE"
	return a, x.readContents(a)
}

// readContents checks the turns: as many results as calls, right behind them, and a signature on the first call of each turn.
func (x *exchange) readContents(a *asked) *refusal {
	contents := list(x.body["contents"])
	if len(contents) == 0 {
		return refuse("", "", "* GenerateContentRequest.contents: contents is not specified")
	}
	calls := 0 // of the turn before
	for i, c := range contents {
		c := member(c)
		role := text(c["role"])
		if role != "user" && role != "model" {
			return refuse("", "", "Please use a valid role: user, model.")
		}
		made, results := 0, 0
		for _, p := range list(c["parts"]) {
			p := member(p)
			if name := only(p, partFields...); name != "" {
				return unknownName(name)
			}
			switch {
			case p["functionCall"] != nil:
				made++
				if wrong := x.geminiSigned(text(p["thoughtSignature"]), text(member(p["functionCall"])["name"]), made == 1); wrong != nil {
					return wrong
				}
			case p["functionResponse"] != nil:
				if results++; results == 1 {
					a.results = nil
				}
				response := member(member(p["functionResponse"])["response"])
				if response == nil {
					return refuse("", "", "Invalid value at 'contents[%d].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct)", i)
				}
				a.results = append(a.results, text(response["output"]))
			case p["inlineData"] != nil, p["fileData"] != nil:
				a.images++
			case role == "user":
				a.results, a.text = nil, text(p["text"])
				fallthrough
			default:
				if text(p["text"]) == "" && p["thoughtSignature"] == nil {
					return refuse("", "", "Unable to submit request because it must have a text parameter.")
				}
			}
		}
		if results != calls {
			return refuse("", "", "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		calls = made
	}
	if calls > 0 {
		return refuse("", "", "Please ensure that function call turn comes immediately before a function response turn.")
	}
	return nil
}

// geminiSigned checks the signature of a call: of calls that were made at once, only the first has one.
func (x *exchange) geminiSigned(signature, name string, first bool) *refusal {
	if !first {
		return nil
	}
	if signature == "" {
		return refuse("", "", "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly. Additional data, function call `default_api:%s`.", name)
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if _, ok := x.signed(signature); !ok && (err != nil || string(raw) != "skip_thought_signature_validator") {
		return refuse("", "", "Thought signature is not valid.")
	}
	return nil
}

func writeGemini(x *exchange, a *asked, r *reply) {
	show := member(member(x.body["generationConfig"])["thinkingConfig"])["includeThoughts"] == true
	var all []any
	if show {
		all = append(all, object{"text": r.thinking, "thought": true})
	}
	for _, s := range r.text {
		all = append(all, object{"text": s})
	}
	for i, c := range r.calls {
		p := object{"functionCall": object{"id": c.id, "name": c.name, "args": decoded(c.arguments)}}
		if i == 0 {
			p["thoughtSignature"] = r.signature
		}
		all = append(all, p)
	}
	finish := either(r.refused, "SAFETY", "STOP")
	usage := object{"promptTokenCount": 20, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 25}
	if !a.stream {
		fmt.Fprint(x.w, encode(object{"candidates": []any{object{"index": 0, "content": object{"role": "model", "parts": all}, "finishReason": finish}}, "usageMetadata": usage, "modelVersion": a.model}))
		return
	}
	for i, p := range all {
		candidate := object{"index": 0, "content": object{"role": "model", "parts": []any{p}}}
		if i == len(all)-1 {
			candidate["finishReason"] = finish
		}
		x.event("", object{"candidates": []any{candidate}, "usageMetadata": usage, "modelVersion": a.model})
		if member(p)["thought"] == nil && r.cut {
			x.abort()
		}
		if member(p)["thought"] == nil && r.late {
			x.event("", object{"error": object{"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})
			return
		}
	}
}
