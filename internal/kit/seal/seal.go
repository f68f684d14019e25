// Package seal encrypts data before it is stored.
//
// A Box encrypts under a secret that the API caller supplies, under the service's own Key, or under
// both. The store sees only an ID, which identifies the record, and the ciphertext. Neither reveals
// anything about the secrets or the content.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// IDSize is the length of an ID in bytes.
const IDSize = sha256.Size

// KeySize is the length of a Key in bytes. It selects AES-256.
const KeySize = 32

// ErrUnreadable is returned by Open for bytes that this Box did not seal. GCM authenticates the
// ciphertext, so damage, a wrong secret and a wrong key cannot be told apart.
var ErrUnreadable = errors.New("it is damaged, or was sealed under another secret or by another version")

// Key is the service's own secret. The zero value means no key: boxes made from it depend on the
// caller's secret alone. The field is a string so that a Key can be compared and cannot be
// modified.
type Key struct{ raw string }

// NewKey returns a random key.
func NewKey() Key {
	var b [KeySize]byte
	_, _ = rand.Read(b[:]) // never fails
	return Key{string(b[:])}
}

// KeyOf returns the Key whose Bytes are b.
func KeyOf(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, ErrUnreadable
	}
	return Key{string(b)}, nil
}

// Bytes returns the raw key, so that it can itself be sealed and stored.
func (k Key) Bytes() []byte { return []byte(k.raw) }

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.raw == "" }

// String hides the key, so that formatting a Key with %v or %s does not leak it to a log.
func (k Key) String() string { return "seal.Key(hidden)" }

// GoString does the same for %#v.
func (k Key) GoString() string { return k.String() }

// Box returns a box that needs both the key and the secret to open. Either may be missing: a zero
// Key or an empty secret adds nothing to the derivation.
func (k Key) Box(purpose, scope, secret string) Box { return Box{k, purpose, scope, secret} }

// Box seals data under a key and a secret. Its ID and its encryption key are both derived from key,
// purpose, scope and secret, so changing any of the four gives unrelated values.
type Box struct {
	key                    Key
	purpose, scope, secret string
}

// New returns a box that depends on a secret alone. The same secret used with another purpose or
// scope gives independent keys, so a value derived for one use reveals nothing about another.
func New(purpose, scope, secret string) Box { return Key{}.Box(purpose, scope, secret) }

// ID returns the identifier under which the record is stored. It is deterministic: the caller finds
// its record again by bringing the same secret.
func (b Box) ID() [IDSize]byte { return [IDSize]byte(b.derive("id", IDSize)) }

// Seal encrypts plain and returns nonce and ciphertext as one new slice. Each call uses a fresh
// random nonce, so sealing the same bytes twice gives different results.
func (b Box) Seal(plain []byte) []byte { return b.cipher().Seal(nil, nil, plain, nil) }

// Overhead is how many bytes Seal adds.
const Overhead = 12 + 16

// Record returns ID and Seal together, which takes fewer hashes. If plain has room for Overhead more bytes, the result takes its
// memory, so a large text is not copied. The caller must not use plain again.
func (b Box) Record(plain []byte) (id [IDSize]byte, sealed []byte) {
	secret := b.extract()
	return [IDSize]byte(b.expand(secret, "id", IDSize)), aead(b.expand(secret, "key", KeySize)).Seal(plain[:0], nil, plain, nil)
}

// Open decrypts what Seal returned. It returns ErrUnreadable if the bytes do not authenticate.
func (b Box) Open(sealed []byte) ([]byte, error) {
	plain, err := b.cipher().Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, ErrUnreadable
	}
	return plain, nil
}

// OpenInPlace is like Open, and writes the result over sealed, which may be large. The caller must not use sealed again.
func (b Box) OpenInPlace(sealed []byte) ([]byte, error) {
	plain, err := b.cipher().Open(sealed[:0], nil, sealed, nil)
	if err != nil {
		return nil, ErrUnreadable
	}
	return plain, nil
}

// derive returns size bytes for one use ("id" or "key") with HKDF-SHA256. The service key is the
// salt: without it, knowing the secret is not enough. The zero byte in front of the scope keeps the
// info string unambiguous, so that no pair of use and scope can be read as another.
func (b Box) derive(use string, size int) []byte { return b.expand(b.extract(), use, size) }

// extract is the first step of derive, which is the same for every use.
func (b Box) extract() []byte {
	extracted, err := hkdf.Extract(sha256.New, []byte(b.secret), []byte(b.key.raw))
	if err != nil {
		panic(err) // HKDF only fails for hashes that are not approved
	}
	return extracted
}

// expand is the second step of derive.
func (b Box) expand(extracted []byte, use string, size int) []byte {
	derived, err := hkdf.Expand(sha256.New, extracted, "sluice "+b.purpose+" "+use+"\x00"+b.scope, size)
	if err != nil {
		panic(err) // HKDF only fails for sizes above 255 hashes
	}
	return derived
}

// cipher returns the cipher of the box.
func (b Box) cipher() cipher.AEAD { return aead(b.derive("key", KeySize)) }

// aead returns AES-256-GCM with a random 96-bit nonce in front of each ciphertext.
func aead(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // only for key sizes that AES does not have
	}
	sealing, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the block size that GCM needs
	}
	return sealing
}
