package idempotency

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"slices"
	"testing"

	"sluice/internal/kit/seal"
)

func TestSeal(t *testing.T) {
	t.Parallel()
	s := secret{accountID: "acct_1", path: "/v1/x", key: "key"}
	body := sha256.Sum256([]byte("body"))
	reply := &Reply{kept: []byte("what was answered")}
	sealed := s.seal(body, reply)
	gotBody, got, err := s.open(sealed)
	if err != nil || gotBody != body || got.Stream || string(got.kept) != "what was answered" {
		t.Fatalf("open(seal) = %x, %+v, %v, want what was sealed", gotBody, got, err)
	}
	if bytes.Contains(sealed, reply.kept) || bytes.Contains(sealed, body[:]) {
		t.Error("what is sealed can be read")
	}
	if bytes.Equal(sealed, s.seal(body, reply)) {
		t.Error("the same reply is sealed twice to the same bytes")
	}
	for _, other := range []secret{
		{"acct_1", "/v1/x", "kez", seal.Key{}},
		{"acct_2", "/v1/x", "key", seal.Key{}},
		{"acct_1", "/v1/y", "key", seal.Key{}},
		{"acct_1/", "v1/x", "key", seal.Key{}},
		{"acct_1", "/v1/x", "key", seal.NewKey()},
	} {
		if _, _, err := other.open(sealed); err == nil {
			t.Errorf("%v opens what %v sealed", other, s)
		}
		if other.id() == s.id() {
			t.Errorf("%v and %v have the same id", other, s)
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 0x40
		if _, _, err := s.open(changed); err == nil {
			t.Errorf("open with byte %d changed = nil, want an error", i)
		}
		if _, _, err := s.open(sealed[:i]); err == nil {
			t.Errorf("open of the first %d bytes = nil, want an error", i)
		}
	}
}

// The headers that a repeat gets are sealed with the reply, of either form. Without any, the format is that of earlier versions.
func TestSealHeader(t *testing.T) {
	t.Parallel()
	s := secret{accountID: "acct_1", path: "/v1/x", key: "key"}
	header := []Field{{"X-Sluice-Cost", "0.00017"}, {"X-Empty", ""}}
	for _, r := range []*Reply{
		{Header: header, kept: []byte("body")},
		{Header: header, Stream: true, kept: shorten(nil, nil, []byte("data: x"))},
		{kept: []byte("body")},
	} {
		_, got, err := s.open(s.seal([bodySize]byte{}, r))
		if err != nil || got.Stream != r.Stream || !slices.Equal(got.Header, r.Header) || !bytes.Equal(got.kept, r.kept) {
			t.Errorf("open(seal(%+v)) = %+v, %v, want the same", r, got, err)
		}
	}
	whole := appendFields(nil, header)
	for n := range whole {
		if got, _, ok := readFields(whole[:n]); ok {
			t.Errorf("readFields of %d of %d bytes = %v, want it refused", n, len(whole), got)
		}
	}
}

// The key that encrypts must not follow from the id, which everybody with the database knows.
func TestIDIsNotTheKey(t *testing.T) {
	t.Parallel()
	s := secret{accountID: "acct_1", path: "/v1/x", key: "key"}
	sealed := s.seal([bodySize]byte{}, &Reply{kept: []byte("reply")})
	id := s.id()
	block, err := aes.NewCipher(id[:])
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := aead.Open(nil, nil, sealed, nil); err == nil {
		t.Errorf("the id opens what is sealed: %q", plain)
	}
}

func TestOpenUnknownFormat(t *testing.T) {
	t.Parallel()
	s := secret{accountID: "acct_1", path: "/v1/x", key: "key"}
	for name, plain := range map[string][]byte{
		"unknown":       append([]byte{9}, make([]byte, bodySize)...),
		"short":         {formatBody},
		"broken header": append(append([]byte{formatBody | formatHeader}, make([]byte, bodySize)...), 1, 200),
		"broken stream": append(append([]byte{formatStream}, make([]byte, bodySize)...), 1, 0, 0),
	} {
		if _, r, err := s.open(s.box().Seal(plain)); err == nil {
			t.Errorf("open(%s) = %+v, want an error", name, r)
		}
	}
}
