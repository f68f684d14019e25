package chat

import "bytes"

// Cache is a cache_control: the provider is asked to keep the prompt up to there. Anthropic has it, and clients of others
// send it in chat completions, too.
type Cache struct {
	Type string // ephemeral
	TTL  string // 5m, 1h or empty
}

// NoPart stands for the message or the tool itself; see Message.Caches.
const NoPart = -1

// cacheKey is the member, with its quotes.
var cacheKey = []byte(`"cache_control"`)

// mayCache reports whether some member of an object may be a cache_control: there is the key, or an escape of a letter or
// of the underscore, in which it could be hidden. Nearly no text has such an escape.
func mayCache(raw []byte) bool {
	return bytes.Contains(raw, cacheKey) || mayHide(raw)
}

// Beside returns the names of what a message of a chat completion has beside what other dialects can say: marks for the
// cache of OpenAI, the sound of an earlier reply, and a refusal next to a content. Nearly every message has nothing.
func (m *Message) Beside() (names []string) {
	if len(m.Breakpoints()) > 0 {
		names = append(names, "content[].prompt_cache_breakpoint")
	}
	if m.Role != RoleAssistant {
		return names
	}
	if bytes.Contains(m.raw, []byte(`"audio"`)) && ValueOf(m.raw).Member("audio").Kind() == '{' {
		names = append(names, "audio")
	}
	if bytes.Contains(m.raw, []byte(`"refusal"`)) {
		if v := ValueOf(m.raw); !v.Member("content").Null() && v.Member("refusal").IsText() && !v.Member("refusal").Is("") {
			names = append(names, "refusal")
		}
	}
	return names
}

// Breakpoints returns the JSON of the prompt_cache_breakpoint of the parts of a message by their indexes; nil if there are
// none, as in nearly every message.
func (m *Message) Breakpoints() (found map[int][]byte) {
	const name = "prompt_cache_breakpoint"
	if !bytes.Contains(m.raw, []byte(`"`+name+`"`)) {
		return nil
	}
	content := ValueOf(m.raw).Member("content")
	for w := content.Walk(); content.Kind() == '[' && w.Next(); {
		if mark := w.Value.Member(name); !mark.Null() {
			if found == nil {
				found = map[int][]byte{}
			}
			found[w.Index] = mark.Raw()
		}
	}
	return found
}

// Caches returns the cache_control of the parts of a message by their indexes, and that of the message under NoPart; nil if
// there are none, as in nearly every message.
func (m *Message) Caches() map[int]Cache {
	if !mayCache(m.raw) {
		return nil
	}
	found := map[int]Cache{}
	v := ValueOf(m.raw)
	if c, ok := cacheOf(v); ok {
		found[NoPart] = c
	}
	if content := v.Member("content"); content.Kind() == '[' {
		for w := content.Walk(); w.Next(); {
			if c, ok := cacheOf(w.Value); ok {
				found[w.Index] = c
			}
		}
	}
	return found
}

// Cache returns the cache_control of a tool, in the entry or in its function, and reports whether there is one.
func (t *Tool) Cache() (Cache, bool) {
	if !mayCache(t.raw) {
		return Cache{}, false
	}
	entry := ValueOf(t.raw)
	if c, ok := cacheOf(entry.Member("function")); ok {
		return c, true
	}
	return cacheOf(entry)
}

// Cache returns the cache_control of the whole request, and reports whether there is one.
func (r *Request) Cache() (Cache, bool) { return readCache(ValueOf(r.Member("cache_control"))) }

// cacheOf returns the cache_control of an object, and reports whether it has one.
func cacheOf(v Value) (Cache, bool) { return readCache(v.Member("cache_control")) }

// readCache reads a cache_control, unless it is none.
func readCache(v Value) (Cache, bool) {
	return Cache{Type: v.Member("type").Text(), TTL: v.Member("ttl").Text()}, v.Kind() == '{'
}
