package openai

import (
	"net/http"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Hints implements provider.Hinter.
func (a *Adapter) Hints() bool { return a.preset.hints != hints{} }

// headers returns the headers of a call, with the name of its conversation if the vendor wants it there.
func (a *Adapter) headers(call *provider.Call, responses bool) http.Header {
	h := call.Header(a.header)
	hint := &a.preset.hints
	if call.Conversation == "" || hint.header == "" || responses && hint.inChat {
		return h
	}
	if call.TraceParent == "" { // h is shared
		h = h.Clone()
	}
	h[hint.header] = []string{call.Conversation}
	return h
}

// hint names the conversation in a chat completion, unless the caller does.
func (q *quirks) hint() {
	if name := q.preset.hints.chat; name != "" && q.call.Conversation != "" && !isGiven(q.req.Member(name)) {
		q.set(name, `"`+q.call.Conversation+`"`)
	}
}

// withHint returns the body of a response in which the conversation is named, unless the caller does. The member stands at
// the end: the body is not copied.
func (a *Adapter) withHint(call *provider.Call, body []byte) []byte {
	name := a.preset.hints.responses
	if name == "" || call.Conversation == "" || isGiven(call.Request.Member(name)) {
		return body
	}
	body = chat.AppendName(body[:len(body)-1], name)
	return append(jsonscan.AppendQuoted(body, call.Conversation), '}')
}
