package chat

import (
	"bytes"
	"hash/maphash"

	"sluice/internal/kit/jsonscan"
)

const (
	// maxOpenKeys bounds the members of the objects that are open at one time, and with them the memory
	// that one request can make us spend: about 3 MB at worst.
	maxOpenKeys = 1 << 16
	// smallObject is how many keys of one object are compared one by one. Nearly every object has
	// fewer, and for those a comparison of raw bytes is cheaper than any hash.
	smallObject = 16
)

// keyStack holds the keys of the open objects, to find a key that is given twice. It relies on
// objects closing in the reverse order of their opening, so keys come and go like a stack.
type keyStack struct {
	// keys holds those of the outermost object first. A keyMark says where those of an object start.
	keys    []keySpan
	decoded []byte // texts of the keys that have escapes, one after the other
	// large has the keys of the open objects with more than smallObject keys. Its seed is new for each request, so that nobody
	// can choose keys that collide and make parsing slow. Most requests have no such object and need none.
	large  map[keyHash]int32 // the first key of an object that has the hash: its index in keys
	seed   maphash.Seed
	probes int // comparisons made so far: what the tests bound
}

// keyHash is the hash of a key in the object whose keys start at first.
type keyHash struct {
	hash  uint64
	first int32
}

// keySpan is where the text of a key is: at from in the body or, if from is negative, at ^from in
// keyStack.decoded. It and keyMark are small, so that setting up a scanner is cheap. Parse refuses
// bodies that an int32 cannot index.
type keySpan struct{ from, size int32 }

// keyMark records the lengths of a keyStack at the moment an object opened.
type keyMark struct{ keys, decoded int32 }

// keyVerdict is what add found out about a key. The scanner turns it into a message, since only the
// scanner knows the path.
type keyVerdict uint8

const (
	keyNew     keyVerdict = iota
	keyTwice              // the object has the key already
	keyTooMany            // there are maxOpenKeys keys already
)

// mark returns the mark of an object that opens now.
func (k *keyStack) mark() keyMark { return keyMark{int32(len(k.keys)), int32(len(k.decoded))} }

// add adds a key of the innermost object, which opened at m, and returns its text. The text is valid
// until the next add or release. Keys are compared after unescaping: "a" and "\u0061" are the same
// key, and upstreams would disagree about which of the two counts.
func (k *keyStack) add(body []byte, m keyMark, t quotation) ([]byte, keyVerdict) {
	// Nearly every key has no escapes: its text is in the body, and nothing is copied.
	span := keySpan{int32(t.from + 1), int32(t.size)}
	if !t.plain() {
		span.from = ^int32(len(k.decoded))
		k.decoded = append(k.decoded, jsonscan.Unquote(body[t.from:t.to])...)
	}
	key := k.text(body, span)
	if len(k.keys) == maxOpenKeys {
		return key, keyTooMany
	}
	k.keys = append(k.keys, span)
	first, last := int(m.keys), len(k.keys)-1
	switch n := last - first; {
	case n < smallObject:
		if k.among(body, first, last) {
			return key, keyTwice
		}
		return key, keyNew
	case n == smallObject: // too many to compare one by one: hash those there are
		if k.large == nil {
			k.large, k.seed = make(map[keyHash]int32, 128), maphash.MakeSeed()
		}
		for i := first; i < last; i++ {
			k.insert(body, i, first)
		}
	}
	if !k.insert(body, last, first) {
		return key, keyTwice
	}
	return key, keyNew
}

// among reports whether keys[i] is one of those from first on.
func (k *keyStack) among(body []byte, first, i int) bool {
	key := k.text(body, k.keys[i])
	for _, other := range k.keys[first:i] {
		k.probes++
		if int(other.size) == len(key) && bytes.Equal(k.text(body, other), key) {
			return true
		}
	}
	return false
}

// insert adds keys[i] to the hashes of a large object. It reports false if the object, whose keys start at first, has an
// equal key.
func (k *keyStack) insert(body []byte, i, first int) bool {
	id := k.hash(body, i, first)
	other, found := k.large[id]
	if !found {
		k.large[id] = int32(i)
		return true
	}
	k.probes++
	if bytes.Equal(k.text(body, k.keys[other]), k.text(body, k.keys[i])) {
		return false
	}
	return !k.among(body, first, i) // two keys have the same hash, which nobody will see
}

// hash returns the hash of keys[i] in its object.
func (k *keyStack) hash(body []byte, i, first int) keyHash {
	return keyHash{maphash.Bytes(k.seed, k.text(body, k.keys[i])), int32(first)}
}

// release removes the keys of the innermost object, which opened at m.
func (k *keyStack) release(body []byte, m keyMark) {
	first := int(m.keys)
	if len(k.keys)-first > smallObject {
		for i := first; i < len(k.keys); i++ {
			delete(k.large, k.hash(body, i, first))
		}
	}
	k.keys = k.keys[:first]
	k.decoded = k.decoded[:m.decoded]
}

// text returns the text of a key.
func (k *keyStack) text(body []byte, s keySpan) []byte {
	if s.from < 0 {
		return k.decoded[^s.from:][:s.size]
	}
	return body[s.from:][:s.size]
}
