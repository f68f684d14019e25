package chat

import (
	"bytes"

	"sluice/internal/kit/jsonscan"
)

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
	if bytes.Contains(raw, cacheKey) {
		return true
	}
	for {
		_, rest, ok := bytes.Cut(raw, []byte(`\u00`))
		if !ok {
			return false
		}
		if len(rest) > 0 && rest[0] >= '5' && rest[0] <= '7' {
			return true
		}
		raw = rest
	}
}

// Caches returns the cache_control of the parts of a message by their indexes, and that of the message under NoPart; nil if
// there are none, as in nearly every message.
func (m *Message) Caches() map[int]Cache {
	if !mayCache(m.raw) {
		return nil
	}
	found := map[int]Cache{}
	eachMember(m.raw, func(key string, v []byte) {
		switch {
		case key == "cache_control":
			note(found, NoPart, v)
		case key == "content" && isKind(v, '['):
			eachElement(v, func(i int, v []byte) {
				if isKind(v, '{') {
					eachMember(v, func(key string, v []byte) {
						if key == "cache_control" {
							note(found, i, v)
						}
					})
				}
			})
		}
	})
	return found
}

// Cache returns the cache_control of a tool, in the entry or in its function, and reports whether there is one.
func (t *Tool) Cache() (Cache, bool) {
	if !mayCache(t.raw) {
		return Cache{}, false
	}
	found := map[int]Cache{}
	eachMember(t.raw, func(key string, v []byte) {
		switch {
		case key == "cache_control":
			note(found, NoPart, v)
		case key == "function" && isKind(v, '{'):
			eachMember(v, func(key string, v []byte) {
				if key == "cache_control" {
					note(found, NoPart, v)
				}
			})
		}
	})
	c, ok := found[NoPart]
	return c, ok
}

// Cache returns the cache_control of the whole request, and reports whether there is one.
func (r *Request) Cache() (Cache, bool) {
	found := map[int]Cache{}
	if v := r.Member("cache_control"); v != nil {
		note(found, NoPart, v)
	}
	c, ok := found[NoPart]
	return c, ok
}

// note adds a cache_control, unless it is none.
func note(found map[int]Cache, i int, v []byte) {
	if !isKind(v, '{') {
		return
	}
	var c Cache
	eachMember(v, func(key string, v []byte) {
		if !isKind(v, '"') {
			return
		}
		switch key {
		case "type":
			c.Type = jsonscan.Unquote(v)
		case "ttl":
			c.TTL = jsonscan.Unquote(v)
		}
	})
	found[i] = c
}
