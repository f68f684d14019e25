package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
)

// This file decides whose fault a failure is (docs/providers/routing.md#whose-fault-a-failure-is). Only what another caller would
// meet, too, counts against an upstream: one caller must not be able to take a model away from all others.

// Counts reports whether a failed call says something about its upstream. It does not if the caller is the cause: the
// request was refused as wrong, or a failure depends on what this one request asks for.
func Counts(err error) bool {
	if !fault.Is(err, fault.Unavailable) || errors.Is(err, ErrWanted) {
		return false
	}
	_, own := errors.AsType[*ownError](err)
	return !own
}

// ownError marks the cause of a fault that depends on the request.
type ownError struct{ marked }

// Own marks a fault as one that other requests would not meet, and returns it. The caller may try again, other upstreams
// may be asked, and the health of this one stays as it was.
func Own(f *fault.Fault) *fault.Fault {
	return f.Because(&ownError{marked{"only this request fails", errors.Unwrap(f)}})
}

// said is what the body of an error says. Every field may be empty.
type said struct {
	message string // cleaned
	whole   string // the same with a wider bound, for callers who speak the upstream's dialect
	kind    string // its type, or the name of its status
	code    string // empty if it is a number
	status  int    // its code, if that is a number
	param   string
	details json.RawMessage // cleaned; nil if there are none
	flagged bool            // a filter of content has stopped the request
	// The tokens of a prompt that is too long and what the model reads, where they are members of their own.
	tokens, most int
	requestID    string // the upstream's id of the request
}

// read reads the body of an error: {"error":{…}} and variants of that.
//
// It is decoded into maps, because no two vendors have the same members, and members of other
// types than expected must not hide the rest.
func read(body []byte) (s said) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return s
	}
	text := sentence(v)
	s.message, s.whole = cleaned(text, maxMessage), cleaned(text, maxWhole)
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	object, _ := v.(map[string]any)
	outer, _ := object["code"].(string) // xAI's is beside the error
	if id, _ := object["request_id"].(string); isWord(id) {
		s.requestID = id
	}
	if inner, ok := object["error"].(map[string]any); ok {
		object, outer = inner, ""
	}
	s.members(object)
	s.code = cmp.Or(s.code, outer)
	s.flagged = s.flagged || slices.Contains(filterCodes, s.code) || usageRules.MatchString(s.message)
	return s
}

// members reads the members of an error object.
func (s *said) members(object map[string]any) {
	s.kind, _ = object["type"].(string)
	if s.kind == "" {
		s.kind, _ = object["status"].(string)
	}
	switch code := object["code"].(type) {
	case string:
		s.code = code
	case float64:
		s.status = int(code)
	}
	param, _ := object["param"].(string)
	s.param = cleaned(param, maxParam)
	s.tokens, s.most = tokens(object["n_prompt_tokens"]), tokens(object["n_ctx"]) // of llama.cpp
	s.details = details(object)
	metadata, _ := object["metadata"].(map[string]any)
	_, s.flagged = metadata["flagged_input"]
}

// tokens returns a number of tokens; zero if it cannot be one.
func tokens(v any) int {
	if n, ok := v.(float64); ok && n > 0 && n < 1e9 {
		return int(n)
	}
	return 0
}

// filterCodes are the codes of errors of content filters: OpenAI's and Azure's, and OpenRouter's.
var filterCodes = []string{"content_filter", "content_policy_violation", "image_content_policy_violation", "bio_policy", "cyber_policy", "moderation_blocked"}

// usageRules matches xAI's sentence about content that it does not allow. Its code is that of a key without permission.
var usageRules = regexp.MustCompile(`(?i)^content violates usage guidelines`)

// wrongRequest are the codes of OpenAI for requests that are wrong. They come inside replies, which have no status.
var wrongRequest = regexp.MustCompile(`^(invalid_prompt|context_length_exceeded|string_above_max_length|(invalid|unsupported|empty|failed_to_download)_.*image.*|image_.*)$`)

// namesModel reports whether the error is about the name of the model, which is the operator's: it is in the
// configuration.
func (s *said) namesModel() bool {
	return s.param == "model" || s.code == "model_not_found" || s.code == "DeploymentNotFound" || aboutModel.MatchString(s.message)
}

// aboutModel matches the beginning of what vendors say of a model that they do not have: "model: x" of Anthropic,
// "The model x does not exist" of OpenAI and vLLM, "model x not found" of Ollama, "models/x is not found" of Google,
// "No endpoints found for x" of OpenRouter.
var aboutModel = regexp.MustCompile(`(?i)^(the )?(requested )?(model\b|models/|(api )?deployment\b)|^no endpoints found for\b`)

// tooLarge matches what OpenAI says of a request that is larger than the whole allowance of a minute: smaller ones pass.
var tooLarge = regexp.MustCompile(`(?i)^request too large\b`)

// callers reports whether the caller caused a refusal with this status. request is the body that was sent; nil if it is
// not known.
//
// The cases are in the order of their certainty. In doubt it is not the caller's fault: then other
// upstreams are asked, and the operator notices.
func (s *said) callers(status int, request *[3][]byte) bool {
	switch {
	case callersFault(status):
		return true
	case status < 400, status > 499, slices.Contains(operators, status):
		return false
	case s.flagged:
		return true
	case s.namesModel():
		return false
	case s.param != "": // a field of the request
		return true
	case request == nil || s.message == "": // a page of a proxy, for example: the address is wrong
		return false
	case s.quotes(request):
		return true
	}
	return slices.Contains(missing, status) && namesObjects(request)
}

// operators are the statuses that are always about our key, our account, or the load of the upstream.
var operators = []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests}

// missing are the statuses of something that is not there, or not as the request says.
var missing = []int{http.StatusNotFound, http.StatusConflict, http.StatusGone}

// objects are the members of requests that name something stored at the vendor: threads and files of Anthropic,
// responses, conversations, prompts, files and containers of OpenAI, files and caches of Google.
var objects = []string{
	"thread", "previous_message_id", "container", "container_id", "skill_id", "previous_response_id", "conversation", "prompt", "item_reference",
	"file_id", "file_ids", "vector_store_ids", "file_uri", "fileUri", "cached_content", "cachedContent", "connector_id",
}

// namesObjects reports whether a request has a member that names a stored object, or the type of one. Inside of a text
// the quotes would be escaped, so a text about threads is none.
func namesObjects(request *[3][]byte) bool {
	for _, name := range objects {
		if occurs(request, `"`+name+`"`) {
			return true
		}
	}
	return false
}

// identifier matches what looks like an id in a message: at least six characters with a digit, an underscore or a dash.
var identifier = regexp.MustCompile(`[A-Za-z0-9]*[0-9_-][A-Za-z0-9_-]*`)

// quotes reports whether the message repeats an id that is a string in the request. It finds objects in members that
// are not known here. The name of the model does not count.
func (s *said) quotes(request *[3][]byte) bool {
	for _, id := range identifier.FindAllString(s.message, 8) {
		if len(id) >= 6 && occurs(request, `"`+id+`"`) && !occurs(request, `"model":"`+id+`"`) {
			return true
		}
	}
	return false
}

// occurs reports whether a piece of the request has the text.
func occurs(request *[3][]byte, text string) bool {
	return slices.ContainsFunc(request[:], func(piece []byte) bool { return bytes.Contains(piece, []byte(text)) })
}

// plainly returns the pieces of a request with its letters written as letters: "\u0074hread" names a thread, too. What
// has no such escapes is returned as it is.
// Otherwise a caller could hide such a name, and make its failures count against the upstream.
func plainly(request [3][]byte) *[3][]byte {
	escape := []byte(`\u00`)
	for i, piece := range request {
		if !bytes.Contains(piece, escape) {
			continue
		}
		out := make([]byte, 0, len(piece))
		for {
			at := bytes.Index(piece, escape)
			if at < 0 || at+6 > len(piece) {
				break
			}
			out = append(out, piece[:at]...)
			if n, err := strconv.ParseUint(string(piece[at+4:at+6]), 16, 8); err == nil && (n == '_' || n >= '0' && n <= '9' || n >= 'A' && n <= 'Z' || n >= 'a' && n <= 'z') {
				out = append(out, byte(n))
			} else {
				out = append(out, piece[at:at+6]...)
			}
			piece = piece[at+6:]
		}
		request[i] = append(out, piece...)
	}
	return &request
}

// The bounds of details.
const (
	maxDetails      = 2 << 10 // bytes of JSON
	maxDetailDepth  = 4
	maxDetailFields = 32
)

// beside are members of errors that say more and are kept among the details: OpenAI's account of what a model was about to
// do, and Azure's of what a filter has found.
var beside = []string{"misalignment", "innererror"}

// details returns the details of an error as callers may see them: texts are cleaned. It returns nil if there are none, and
// for what is not an object, such as Google's lists, which name the operator's project, or too long.
func details(failure map[string]any) json.RawMessage {
	object := map[string]any{}
	if given, ok := failure["details"].(map[string]any); ok {
		maps.Copy(object, given)
	}
	for _, name := range beside {
		if more, ok := failure[name].(map[string]any); ok {
			object[name] = more
		}
	}
	if len(object) == 0 {
		return nil
	}
	clean, ok := cleanDetails(object, maxDetailDepth)
	if !ok {
		return nil
	}
	raw, err := json.Marshal(clean)
	if err != nil || len(raw) > maxDetails {
		return nil
	}
	return raw
}

// cleanDetails returns a value of details with clean texts. It reports false if the value exceeds a bound.
func cleanDetails(v any, depth int) (any, bool) {
	switch v := v.(type) {
	case string:
		return cleaned(v, maxMessage), true
	case map[string]any:
		if depth == 0 || len(v) > maxDetailFields {
			return nil, false
		}
		out := make(map[string]any, len(v))
		for name, value := range v {
			clean, ok := cleanDetails(value, depth-1)
			if !ok {
				return nil, false
			}
			out[strings.TrimSpace(cleaned(name, maxMessage))] = clean
		}
		return out, true
	case []any:
		if depth == 0 || len(v) > maxDetailFields {
			return nil, false
		}
		out := make([]any, len(v))
		for i, value := range v {
			clean, ok := cleanDetails(value, depth-1)
			if !ok {
				return nil, false
			}
			out[i] = clean
		}
		return out, true
	}
	return v, true // a number, a boolean, null
}
