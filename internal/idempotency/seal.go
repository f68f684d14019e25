package idempotency

import (
	"crypto/sha256"
	"strconv"

	"sluice/internal/seal"
)

const (
	idSize   = seal.IDSize
	bodySize = sha256.Size
)

// secret is the caller's key and where it counts, and the service's own key. All that is made of it depends
// on all four.
type secret struct {
	accountID, path, key string
	own                  seal.Key
}

func (s secret) box() seal.Box {
	return s.own.Box("idempotency", strconv.Itoa(len(s.accountID))+":"+s.accountID+s.path, s.key)
}

// id is the hash that a record is found by.
func (s secret) id() [idSize]byte { return s.box().ID() }

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
	return s.box().Seal(plain)
}

// open is the inverse of seal.
func (s secret) open(sealed []byte) (body [bodySize]byte, r *Reply, err error) {
	plain, err := s.box().Open(sealed)
	if err != nil || len(plain) < 1+bodySize {
		return body, nil, seal.ErrUnreadable
	}
	r = &Reply{Stream: plain[0] == formatStream, kept: plain[1+bodySize:]}
	if plain[0] != formatBody && !r.whole() {
		return body, nil, seal.ErrUnreadable
	}
	return [bodySize]byte(plain[1:]), r, nil
}
