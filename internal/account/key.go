package account

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
	"time"
)

// MaxSubKeys is how many sub-keys an account may have beside its master key (docs/api.md#accounts-and-keys).
const MaxSubKeys = 10

// KeyPrefix is how the id of every key begins, and no other id.
const KeyPrefix = "key_"

// Key is what is stored of an API key. The key itself is not.
type Key struct {
	ID         string // not secret: pages and commands name the key by it
	Master     bool
	Name       string // of a sub-key; empty for the master key
	Hash       Hash
	LastFour   string // characters, so that people recognize their key
	CreatedAt  time.Time
	CreatedBy  string    // as in the audit log; empty: not known
	LastUsedAt time.Time // zero: never
	Limits     *KeyLimits
	// Tags are those of every call with the key, such as team=search. Requests read them without a lock, so they are never changed in
	// place.
	Tags []string
}

// Hash is the SHA-256 of a raw key. Keys have about 238 random bits, so nobody can find one by
// trying, and no slower hash is needed.
type Hash [sha256.Size]byte

// HashKey returns the hash that a raw key is looked up by.
func HashKey(raw string) Hash {
	var buf [128]byte // on the stack; a key fits, so no request allocates here
	return sha256.Sum256(append(buf[:0], raw...))
}

// A key is the brand, a dash, random characters, and a checksum over all of these. After the brand it
// has letters and digits only, so it needs no escaping in shells, headers and URLs.
const (
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	keyRandom    = 40 // characters
	keyChecksum  = 6  // characters, enough for 32 bits
	keyTailChars = keyRandom + keyChecksum
)

// Wellformed reports whether raw, which has the brand's prefix, has the length and the checksum of
// a key. It tells a typo from an unknown key without a lookup, so that the message can say which it
// is.
func Wellformed(brand, raw string) bool {
	head := len(brand) + 1
	if len(raw) != head+keyTailChars {
		return false
	}
	var sum [keyChecksum]byte
	checksum(sum[:], raw[:head+keyRandom])
	return string(sum[:]) == raw[head+keyRandom:]
}

// newKey returns a new key and its raw text, which its owner sees once.
func newKey(brand string, master bool, name string, now time.Time) (Key, string) {
	var b strings.Builder
	b.WriteString(brand)
	b.WriteByte('-')
	b.WriteString(randomText(keyRandom))
	var sum [keyChecksum]byte
	checksum(sum[:], b.String())
	b.Write(sum[:])
	raw := b.String()
	return Key{
		ID: KeyPrefix + randomText(20), Master: master, Name: name,
		Hash: HashKey(raw), LastFour: raw[len(raw)-4:], CreatedAt: now,
	}, raw
}

// checksum fills dst with the CRC-32 of text in base 62.
func checksum(dst []byte, text string) {
	var buf [128]byte
	sum := crc32.ChecksumIEEE(append(buf[:0], text...))
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = alphabet[sum%62]
		sum /= 62
	}
}

// randomText returns n random letters and digits, each equally likely.
func randomText(n int) string {
	out := make([]byte, 0, n)
	buf := make([]byte, n+n/2)
	for len(out) < n {
		rand.Read(buf) // never fails: crypto/rand
		for _, c := range buf {
			if c < 4*62 && len(out) < n { // the bytes above would make the first letters likelier
				out = append(out, alphabet[c%62])
			}
		}
	}
	return string(out)
}
