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
	table   keyTable
	probes  int // comparisons made so far: what the tests bound
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
		for _, other := range k.keys[first:last] {
			k.probes++
			if other.size == span.size && bytes.Equal(k.text(body, other), key) {
				return key, keyTwice
			}
		}
		return key, keyNew
	case n == smallObject: // too many to compare one by one: hash those there are
		for i := first; i < last; i++ {
			k.insert(body, i, first)
		}
	}
	if !k.insert(body, last, first) {
		return key, keyTwice
	}
	return key, keyNew
}

// release removes the keys of the innermost object, which opened at m.
func (k *keyStack) release(body []byte, m keyMark) {
	first := int(m.keys)
	// Only the keys of large objects are in the table. Removing them in reverse restores it; see keyTable.
	if len(k.keys)-first > smallObject {
		for i := len(k.keys) - 1; i >= first; i-- {
			k.remove(body, i, first)
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

// keyTable is a hash table with linear probing over the keys of the large open objects: those with more
// than smallObject keys. Its seed is new for each request, so that nobody can choose keys that collide
// and make parsing slow. Most requests have no large object and never allocate the table.
//
// Keys are removed in the reverse order of their insertion. That restores the table exactly, so
// deleted slots need no mark.
type keyTable struct {
	// slots are searched from home on, until the key or a free slot is found.
	slots   []int32    // index into keyStack.keys plus one; 0 is free; the length is a power of two
	entries []keyEntry // what is in slots, in the order of insertion
	seed    maphash.Seed
}

// keyEntry is the index of a key in keyStack.keys, and the index of the first key of its object.
type keyEntry struct{ key, first int32 }

// insert adds keys[i] to the table. It reports false if the object, whose keys start at first, has an
// equal key there. The table is at most half full, so that a search ends after a few probes.
func (k *keyStack) insert(body []byte, i, first int) bool {
	t := &k.table
	if 2*len(t.entries) >= len(t.slots) {
		k.grow(body)
	}
	key := k.text(body, k.keys[i])
	at := t.home(key, first)
	for ; t.slots[at] != 0; at = t.after(at) {
		k.probes++
		// Keys below first belong to the objects around this one and may be equal.
		other := int(t.slots[at]) - 1
		if other >= first && bytes.Equal(k.text(body, k.keys[other]), key) {
			return false
		}
	}
	t.slots[at] = int32(i + 1)
	t.entries = append(t.entries, keyEntry{int32(i), int32(first)})
	return true
}

// remove removes keys[i], which must be the entry that was inserted last.
func (k *keyStack) remove(body []byte, i, first int) {
	t := &k.table
	at := t.home(k.text(body, k.keys[i]), first)
	for ; t.slots[at] != int32(i+1); at = t.after(at) {
		k.probes++
	}
	t.slots[at] = 0
	t.entries = t.entries[:len(t.entries)-1]
}

// grow doubles the table. It inserts the entries again in their old order, which remove relies on.
func (k *keyStack) grow(body []byte) {
	t := &k.table
	if t.slots == nil {
		t.seed = maphash.MakeSeed()
	}
	// 128 slots hold the keys of nearly every large object, so most requests grow the table once.
	t.slots = make([]int32, max(128, 2*len(t.slots)))
	for _, e := range t.entries {
		at := t.home(k.text(body, k.keys[e.key]), int(e.first))
		for ; t.slots[at] != 0; at = t.after(at) {
			k.probes++
		}
		t.slots[at] = e.key + 1
	}
}

// home returns the slot where the search for a key starts. Equal keys of different objects start at
// different slots; otherwise a hundred nested objects with the same keys would be a hundred times as
// slow. mix is 2^64 divided by the golden ratio, which spreads consecutive values of first.
func (t *keyTable) home(key []byte, first int) int {
	const mix = 0x9e3779b97f4a7c15
	h := maphash.Bytes(t.seed, key) + uint64(first)*mix
	h = (h ^ h>>32) * mix
	return int(h>>32) & (len(t.slots) - 1)
}

// after returns the slot that is searched after at.
func (t *keyTable) after(at int) int { return (at + 1) & (len(t.slots) - 1) }
