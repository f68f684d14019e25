package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// Listener is the caller of a request that an upstream has refused (docs/api.md#upstream-errors).
type Listener struct {
	// Same says that the caller speaks the upstream's dialect, and that the upstream got the request in the caller's words:
	// then its errors fit the caller's request. Dialect is that of the caller; empty: chat completions.
	Same    bool
	Dialect string
	// Model is our name of the model, and Upstream the upstream's, which callers do not learn.
	Model, Upstream string
	// Window is how many tokens the model reads, and Tokens estimates those of the prompt. A nil Tokens means that the
	// request has no prompt.
	Window int
	Tokens func() int
}

// Tell makes the fault of a refusal that the caller caused say what this caller can use, and returns err. A prompt that
// is too long is told in the words of the caller's dialect, whatever the upstream calls it. A caller of the upstream's
// dialect reads the upstream's own error. Faults of other kinds are left as they are.
func Tell(err error, to Listener) error {
	f, ok := errors.AsType[*fault.Fault](err)
	r, refused := errors.AsType[*Refusal](err)
	if !ok || !refused || f.Kind == fault.Unavailable {
		return err
	}
	excess, long := r.said.tooLong()
	switch {
	case long && to.Tokens != nil && !(to.Same && r.said.inWordsOf(to.Dialect)):
		if excess.Tokens == 0 {
			excess.Most, excess.Tokens = cmp.Or(excess.Most, to.Window), to.Tokens()
		}
		excess.Advice = LongAdvice(to.Model)
		f.TooLong(excess)
	case to.Same:
		r.quote(f, long)
	}
	f.Message, f.Param = rename(f.Message, to.Upstream, to.Model), rename(f.Param, to.Upstream, to.Model)
	if f.Details != nil {
		f.Details = json.RawMessage(rename(string(f.Details), to.Upstream, to.Model))
	}
	return err
}

// LongAdvice is what we add about a prompt that is too long for a model.
func LongAdvice(model string) string {
	return "Shorten the prompt, or use a model with a larger context than " + model + "."
}

// passed are the statuses that reach a caller of the same dialect as they are.
var passed = map[int]fault.Kind{
	http.StatusBadRequest: fault.Invalid, http.StatusNotFound: fault.NotFound,
	http.StatusRequestEntityTooLarge: fault.TooLarge, http.StatusUnprocessableEntity: fault.Invalid,
}

// passedTypes are the types of errors that reach a caller of the same dialect as they are. All dialects have them. Any
// other becomes that of the status: clients know a few, and decide by them whether to retry.
var passedTypes = []string{"invalid_request_error", "not_found_error", "request_too_large"}

// quote makes f say what the upstream says: its status, type, code, param, message and details, and the id of the request
// there, with which its support can be asked.
func (r *Refusal) quote(f *fault.Fault, long bool) {
	s := &r.said
	f.Quoted = true
	if kind, ok := passed[r.Status]; ok {
		f.Kind, f.Code = kind, r.Status
	}
	if slices.Contains(passedTypes, s.kind) {
		f.Type = s.kind
	}
	if isWord(s.code) {
		f.Reason = s.code
	}
	if long {
		f.Kind, f.Code, f.Type, f.Reason = fault.Invalid, 0, "", fault.ReasonLong
	}
	f.Param = s.param
	if s.whole != "" && !usageRules.MatchString(s.whole) {
		f.Message = s.whole
	}
	f.Details = withRequest(s.details, cmp.Or(r.requestID, s.requestID))
}

// word matches what may be a code or an id of a request. The bound is that of what is cleaned away as a secret.
var word = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,46}$`)

// isWord reports whether a code or an id may reach a caller as it is.
func isWord(s string) bool { return word.MatchString(s) && !secrets.MatchString(s) }

// withRequest returns details with the upstream's id of the request, unless it is empty.
func withRequest(details json.RawMessage, id string) json.RawMessage {
	if id == "" {
		return details
	}
	all := map[string]any{}
	if details != nil {
		_ = json.Unmarshal(details, &all) // it was encoded here
	}
	all["request_id"] = id
	raw, err := json.Marshal(all)
	if err != nil {
		return details
	}
	return raw
}

// requestIDs are the headers in which vendors send the id of a request: OpenAI and those after it, Anthropic, and AWS.
var requestIDs = []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid"}

// requestID returns the upstream's id of the request, or an empty string. header may be nil.
func requestID(header http.Header) string {
	for _, name := range requestIDs {
		if id := header.Get(name); isWord(id) {
			return id
		}
	}
	return ""
}

// rename replaces the upstream's name of a model by ours. A name that is part of a longer word is left alone, so that a
// short one does not garble the message; what follows a dash or a dot is a version of the model.
func rename(text, upstream, ours string) string {
	if upstream == "" || upstream == ours || !strings.Contains(text, upstream) {
		return text
	}
	var b strings.Builder
	for {
		at := strings.Index(text, upstream)
		if at < 0 {
			break
		}
		end := at + len(upstream)
		part := at > 0 && (alphanumeric(text[at-1]) || text[at-1] == '-') || end < len(text) && alphanumeric(text[end])
		b.WriteString(text[:at])
		if part {
			b.WriteString(upstream)
		} else {
			b.WriteString(ours)
		}
		text = text[end:]
	}
	return b.String() + text
}

func alphanumeric(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// inWordsOf reports whether the message of a prompt that is too long has the words that clients of the dialect know.
func (s *said) inWordsOf(dialect string) bool {
	if dialect == chat.DialectMessages {
		return strings.HasPrefix(s.whole, "prompt is too long") || strings.Contains(s.whole, "exceed context limit")
	}
	return s.code == fault.ReasonLong || strings.Contains(s.whole, "maximum context length is ")
}
