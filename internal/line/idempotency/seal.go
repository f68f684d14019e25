package idempotency

import (
	"crypto/sha256"
	"strconv"

	"sluice/internal/kit/seal"
)

const (
	idSize   = seal.IDSize
	bodySize = sha256.Size
)

// secret is everything that a reply is encrypted under: the caller's key, the account and the path that it
// belongs to, and the service's own key. Without one of the four nobody finds or reads the reply.
type secret struct {
	accountID, path, key string
	own                  seal.Key
}

// box returns the box of the reply. The length in front of the account id keeps two different pairs of
// account and path from having the same name.
func (s secret) box() seal.Box {
	return s.own.Box("idempotency", strconv.Itoa(len(s.accountID))+":"+s.accountID+s.path, s.key)
}

// id returns the hash by which the store finds the record.
func (s secret) id() [idSize]byte { return s.box().ID() }

// bodyID returns what other nodes compare the body with while the call runs. It is bound to the caller's key,
// so nobody who reads the store can try out which body it is.
func (s secret) bodyID(body [bodySize]byte) []byte {
	id := s.own.Box("idempotency body", string(body[:]), s.key).ID()
	return id[:]
}

// The first byte of what is encrypted: a single body, or a stream.
const (
	formatBody   = 1
	formatStream = 2
)

// seal encrypts a reply together with the hash of the request's body: the store learns neither, and a repeat
// can be compared with the first request.
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

// open is the inverse of seal. It returns seal.ErrUnreadable for anything that seal did not make.
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
