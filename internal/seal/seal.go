// Package seal encrypts what is kept for somebody under a secret that they alone bring along.
//
// The store gets an ID to find a record by and the sealed bytes; neither tells anything about the
// secret or about what is inside.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
)

// IDSize is the length of an ID.
const IDSize = sha256.Size

const keySize = 32 // AES-256

// ErrUnreadable is what Open says of bytes that it did not seal.
var ErrUnreadable = errors.New("it is damaged, or was made by another version")

// Box seals under one secret. All that is made of it depends on purpose, scope and secret.
type Box struct{ purpose, scope, secret string }

// New returns the box of a secret. What other purposes and scopes make of the same secret tells
// nothing about this one.
func New(purpose, scope, secret string) Box { return Box{purpose, scope, secret} }

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

func (b Box) derive(use string, size int) []byte {
	derived, err := hkdf.Key(sha256.New, []byte(b.secret), nil, "sluice "+b.purpose+" "+use+"\x00"+b.scope, size)
	if err != nil {
		panic(err) // only for sizes far beyond ours
	}
	return derived
}

func (b Box) cipher() cipher.AEAD {
	block, err := aes.NewCipher(b.derive("key", keySize))
	if err != nil {
		panic(err) // only for other sizes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES always serves
	}
	return aead
}
