package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
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

// The first byte of what is encrypted: a single body, or a stream. With formatHeader added, headers are in front of it.
const (
	formatBody   = 1
	formatStream = 2
	formatHeader = 4
)

// seal encrypts a reply together with the hash of the request's body: the store learns neither, and a repeat
// can be compared with the first request.
func (s secret) seal(body [bodySize]byte, r *Reply) []byte {
	plain := make([]byte, 0, 1+bodySize+len(r.kept))
	format := byte(formatBody)
	if r.Stream {
		format = formatStream
	}
	if len(r.Header) > 0 {
		format |= formatHeader
	}
	plain = append(plain, format)
	plain = append(plain, body[:]...)
	if len(r.Header) > 0 {
		plain = appendFields(plain, r.Header)
	}
	plain = append(plain, r.kept...)
	return s.box().Seal(plain)
}

// open is the inverse of seal. It returns seal.ErrUnreadable for anything that seal did not make.
func (s secret) open(sealed []byte) (body [bodySize]byte, r *Reply, err error) {
	plain, err := s.box().Open(sealed)
	if err != nil || len(plain) < 1+bodySize {
		return body, nil, seal.ErrUnreadable
	}
	format, ok := plain[0]&^formatHeader, true
	r = &Reply{Stream: format == formatStream, kept: plain[1+bodySize:]}
	if plain[0]&formatHeader != 0 {
		r.Header, r.kept, ok = readFields(r.kept)
	}
	if !ok || format != formatBody && !r.whole() {
		return body, nil, seal.ErrUnreadable
	}
	return [bodySize]byte(plain[1:]), r, nil
}

// appendFields appends headers: how many there are, and their names and values, each after its length.
func appendFields(b []byte, header []Field) []byte {
	b = binary.AppendUvarint(b, uint64(len(header)))
	for _, f := range header {
		for _, text := range [...]string{f.Name, f.Value} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	return b
}

// readFields is the inverse of appendFields. It returns what follows the headers, and reports false for damaged bytes.
func readFields(b []byte) (header []Field, rest []byte, ok bool) {
	number := func() (n uint64) {
		n, width := binary.Uvarint(b)
		if ok = ok && width > 0 && n <= uint64(len(b)-width); ok {
			b = b[width:]
			return n
		}
		return 0
	}
	text := func() string {
		n := number()
		t := string(b[:n])
		b = b[n:]
		return t
	}
	ok = true
	for n := number(); ok && n > 0; n-- {
		header = append(header, Field{text(), text()})
	}
	return header, b, ok
}
