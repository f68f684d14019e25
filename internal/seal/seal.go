// Package seal encrypts what is stored.
//
// A Box seals under a secret that the caller of the API brings along, under the service's own Key, or under
// both. The store gets an ID to find a record by and the sealed bytes; neither tells anything about the
// secrets or about what is inside.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// IDSize is the length of an ID.
const IDSize = sha256.Size

// KeySize is the length of a Key: AES-256.
const KeySize = 32

// ErrUnreadable is what Open says of bytes that it did not seal.
var ErrUnreadable = errors.New("it is damaged, or was sealed under another secret or by another version")

// Key is the service's own secret. The zero value is no key at all: its boxes depend on their secret alone.
type Key struct{ raw string }

// NewKey returns a random key.
func NewKey() Key {
	var b [KeySize]byte
	_, _ = rand.Read(b[:]) // never fails
	return Key{string(b[:])}
}

// KeyOf returns the key that Bytes wrote.
func KeyOf(b []byte) (Key, error) {
	if len(b) != KeySize {
		return Key{}, ErrUnreadable
	}
	return Key{string(b)}, nil
}

// Bytes is the key itself, to be sealed in its turn.
func (k Key) Bytes() []byte { return []byte(k.raw) }

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.raw == "" }

// String keeps the key out of logs.
func (k Key) String() string { return "seal.Key(hidden)" }

// GoString keeps the key out of logs.
func (k Key) GoString() string { return k.String() }

// Box returns a box that needs the key and the secret. Either may be absent: a zero Key, an empty secret.
func (k Key) Box(purpose, scope, secret string) Box { return Box{k, purpose, scope, secret} }

// Box seals under a key and a secret. All that is made of it depends on key, purpose, scope and secret.
type Box struct {
	key                    Key
	purpose, scope, secret string
}

// New returns the box of a secret alone. What other purposes and scopes make of the same secret tells
// nothing about this one.
func New(purpose, scope, secret string) Box { return Key{}.Box(purpose, scope, secret) }

// ID is what a record is found by.
func (b Box) ID() [IDSize]byte { return [IDSize]byte(b.derive("id", IDSize)) }

// Seal encrypts.
func (b Box) Seal(plain []byte) []byte { return b.cipher().Seal(nil, nil, plain, nil) }

// Open is the inverse of Seal.
func (b Box) Open(sealed []byte) ([]byte, error) {
	plain, err := b.cipher().Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, ErrUnreadable
	}
	return plain, nil
}

// derive makes the bytes for one use. The key is the salt: with it in place, knowing the secret is not enough.
func (b Box) derive(use string, size int) []byte {
	derived, err := hkdf.Key(sha256.New, []byte(b.secret), []byte(b.key.raw), "sluice "+b.purpose+" "+use+"\x00"+b.scope, size)
	if err != nil {
		panic(err) // only for sizes far beyond ours
	}
	return derived
}

func (b Box) cipher() cipher.AEAD {
	block, err := aes.NewCipher(b.derive("key", KeySize))
	if err != nil {
		panic(err) // only for other sizes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES always serves
	}
	return aead
}
