package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// sessionHeaders are the headers in which callers name their run: our own, Claude Code's, those of Codex of now and of earlier versions,
// and opencode's. Sub-agents of Claude Code and Codex have the session of their agent; those of opencode name it as their parent.
var sessionHeaders = []string{
	"X-Sluice-Session", "X-Claude-Code-Session-Id", "Session_id", "Session-Id", "Conversation_id", "Thread-Id",
	"X-Parent-Session-Id", "X-Opencode-Session", "X-Session-Id", "X-Session-Affinity",
}

// isSession reports whether a text can be the name of a session: a plain word.
func isSession(text string) bool { return len(text) <= usage.MaxSession && provider.IsFieldName(text) }

// sessionOf returns the name of the run that a call belongs to by its headers; empty if there is none, or if it is no plain word.
func sessionOf(h http.Header) string {
	for _, name := range sessionHeaders {
		if values := h[name]; len(values) == 1 && isSession(values[0]) {
			return strings.Clone(values[0])
		}
	}
	return ""
}

// session returns the name of the run that a request belongs to (docs/api.md#sessions): what the headers say, or else the body. The
// body has been read already, so that this costs a look at the names of its members.
func (c *completion) session(h http.Header) string {
	if name := sessionOf(h); name != "" || c.Request == nil {
		return name
	}
	if name := wordOf("pck_", c.text("prompt_cache_key")); name != "" {
		return name
	}
	if name := userSession(c.userID); name != "" {
		return name
	}
	// Nothing names the run. Then all runs of one person are one session, which can at least be bounded.
	if name := wordOf("usr_", c.userID); name != "" {
		return name
	}
	return wordOf("usr_", c.text("safety_identifier"))
}

// text returns a member of the request that is a text; empty if it is none.
func (c *completion) text(member string) string {
	if v := c.Member(member); v != nil && v[0] == '"' {
		return chat.ValueOf(v).Text()
	}
	return ""
}

// wordOf returns the session that a text names: itself, or if that is no plain word, a part of its hash with a prefix. An empty text
// names none.
func wordOf(prefix, text string) string {
	if text == "" {
		return ""
	}
	if isSession(text) {
		return strings.Clone(text)
	}
	sum := sha256.Sum256([]byte(text))
	return prefix + hex.EncodeToString(sum[:12])
}

// userSession returns the session in the metadata.user_id of Claude Code: what follows session_ in user_…_account_…_session_UUID, or
// the member session_id if the id is an object. Any other id names a person, and this returns nothing.
func userSession(id string) string {
	const mark = "session_"
	at := strings.LastIndex(id, mark)
	if at < 0 || at > 0 && id[at-1] != '_' && id[at-1] != '"' {
		return ""
	}
	name := id[at+len(mark):]
	if at > 0 && id[at-1] == '"' {
		value, ok := strings.CutPrefix(name, `id":`)
		if !ok {
			return ""
		}
		name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimLeft(value, " "), `"`), `"`)
	}
	if !isSession(name) {
		return ""
	}
	return strings.Clone(name)
}

// tagsHeader is the header with the tags of a call.
const tagsHeader = "X-Sluice-Tags"

// headerTags returns the tags in the header of a request; nil if there are none.
func headerTags(h http.Header) (tags []string, err error) {
	for _, value := range h[tagsHeader] {
		for text := range strings.SplitSeq(value, ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			if !account.IsTag(text) {
				return nil, fault.New(fault.Invalid, "%q is not a tag. Write tags like team=search, with commas between them: a name, an equals sign and a value, of at most %d bytes each and without spaces and control characters.", excerpt.Of(text, maxEcho), account.MaxTag).At("x-sluice-tags")
			}
			if len(tags) == account.MaxTags {
				return nil, fault.New(fault.Invalid, "A call has at most %d tags.", account.MaxTags).At("x-sluice-tags")
			}
			tags = append(tags, strings.Clone(text))
		}
	}
	return tags, nil
}

// tagsOf returns the tags of a call (docs/api.md#tags): those of its key, of the header, and of the metadata in its body, in this
// order; of those with one name the first. It is nil if there are none, which costs nothing.
func tagsOf(key, header []string, metadata []byte) (tags []string) {
	if len(header) == 0 && (len(metadata) == 0 || metadata[0] != '{') {
		return key
	}
	tags = append(tags, key...) // never in place: it is the key's
	full := len(tags) >= account.MaxTags
	for _, tag := range header {
		tags, full = account.AddTag(tags, tag)
	}
	if metadata == nil || metadata[0] != '{' {
		return tags
	}
	for m := chat.ValueOf(metadata).Walk(); !full && m.Next(); {
		if !m.Value.IsText() || len(m.Key) > account.MaxTag || m.Value.Size() > account.MaxTag {
			continue
		}
		if tag := string(m.Key) + "=" + m.Value.Text(); account.IsTag(tag) {
			tags, full = account.AddTag(tags, tag)
		}
	}
	return tags
}
