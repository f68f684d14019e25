package idempotency

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"strconv"
)

const (
	idSize   = sha256.Size
	bodySize = sha256.Size
	keySize  = 32 // AES-256
)

// secret is the caller's key and where it counts. All that is made of it depends on all three.
type secret struct{ accountID, path, key string }

// derive makes bytes for one purpose; those of another purpose tell nothing about them.
func (s secret) derive(purpose string, size int) []byte {
	info := "sluice idempotency " + purpose + "\x00" + strconv.Itoa(len(s.accountID)) + ":" + s.accountID + s.path
	b, err := hkdf.Key(sha256.New, []byte(s.key), nil, info, size)
	if err != nil {
		panic(err) // only for sizes far beyond ours
	}
	return b
}

// id is the hash that a record is found by.
func (s secret) id() [idSize]byte { return [idSize]byte(s.derive("id", idSize)) }

func (s secret) cipher() cipher.AEAD {
	block, err := aes.NewCipher(s.derive("key", keySize))
	if err != nil {
		panic(err) // only for other sizes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES always serves
	}
	return aead
}

// format is the first byte of what is sealed, for a JSON body and for a stream.
const (
	formatBody   = 1
	formatStream = 2
)

// seal encrypts a reply together with the hash of the request's body, so that the store learns neither.
func (s secret) seal(body [bodySize]byte, r *Reply) []byte {
	plain := make([]byte, 0, 1+bodySize+len(r.kept))
	format := byte(formatBody)
	if r.Stream {
		format = formatStream
	}
	plain = append(plain, format)
	plain = append(plain, body[:]...)
	plain = append(plain, r.kept...)
	return s.cipher().Seal(nil, nil, plain, nil)
}

var errUnreadable = errors.New("it is damaged, or was made by another version")

// open is the inverse of seal.
func (s secret) open(sealed []byte) (body [bodySize]byte, r *Reply, err error) {
	plain, err := s.cipher().Open(nil, nil, sealed, nil)
	if err != nil || len(plain) < 1+bodySize {
		return body, nil, errUnreadable
	}
	r = &Reply{Stream: plain[0] == formatStream, kept: plain[1+bodySize:]}
	if plain[0] != formatBody && !r.whole() {
		return body, nil, errUnreadable
	}
	return [bodySize]byte(plain[1:]), r, nil
}
