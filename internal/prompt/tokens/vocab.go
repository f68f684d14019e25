package tokens

import (
	"compress/gzip"
	_ "embed"
	"hash/maphash"
	"io"
	"strings"
	"sync"
)

//go:generate go run ./genvocab o200k.bin

// packed is the vocabulary, compressed: 256 tokens of one byte, and then, for each further token, the numbers of the
// two earlier tokens that it consists of, as the command genvocab writes them. It is a string and not a slice, so that it stays in the part of
// the binary that is only read, and takes no memory until it is used.
//
//go:embed o200k.bin
var packed string

const (
	singles = 256
	// slots is the size of the hash table. It is at least twice the number of tokens, so that most
	// lookups need one or two steps.
	slots = 1 << 19
	// most is an upper bound of the number of tokens; text one of their bytes together.
	most = 200_000
	text = 1_400_000
)

// vocab finds the number of a token, which is also its rank: of two possible merges, the one with the
// lower number comes first. It is never changed once it is built. It takes 4 MB, less than half of what a
// map of strings takes.
type vocab struct {
	seed maphash.Seed
	text []byte // all tokens, one after the other
	ends []uint32
	// table holds 1 + the number of a token, and other bits of its hash above them, or 0. A token is in the slot of its hash, or in
	// the first free one after it. The bits tell nearly every other token apart without a look at its text, which would be two
	// more misses of the processor's cache; most of what is looked up is no token.
	table []uint32
}

// A number takes numberBits bits of an entry, the rest is tagOf of the hash.
const numberBits = 18

func tagOf(hash uint64) uint32 { return uint32(hash>>(64-(32-numberBits))) << numberBits }

// vocabulary returns the vocabulary, and builds it if this is the first call.
var vocabulary = sync.OnceValue(unpack)

// unpack builds the vocabulary. It panics if the file is damaged: that is a mistake of the build.
// The numbers have three bytes each and are stored by planes, all low bytes first, because that
// compresses better.
func unpack() *vocab {
	v := &vocab{seed: maphash.MakeSeed(), text: make([]byte, 0, text), ends: make([]uint32, 0, most), table: make([]uint32, slots)}
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		panic(err)
	}
	rest, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	for _, c := range rest[:singles] {
		v.add(append(v.text, c))
	}
	rest = rest[singles:]
	n := len(rest) / 6
	number := func(planes []byte, i int) uint32 {
		return uint32(planes[i]) | uint32(planes[n+i])<<8 | uint32(planes[2*n+i])<<16
	}
	for i := range n {
		v.add(append(append(v.text, v.token(number(rest, i))...), v.token(number(rest[3*n:], i))...))
	}
	return v
}

// add takes the text of all tokens with a new one at its end.
func (v *vocab) add(text []byte) {
	token := text[len(v.text):]
	v.text = text
	v.ends = append(v.ends, uint32(len(text)))
	hash := maphash.Bytes(v.seed, token)
	i := hash % slots
	for v.table[i] != 0 {
		i = (i + 1) % slots
	}
	v.table[i] = uint32(len(v.ends)) | tagOf(hash)
}

// token returns the text of a token.
func (v *vocab) token(n uint32) []byte {
	start := uint32(0)
	if n > 0 {
		start = v.ends[n-1]
	}
	return v.text[start:v.ends[n]]
}

// none is the number of what is no token. It is higher than all others, so it is never merged.
const none = ^uint32(0)

// number returns the number of a token, or none.
// The loop ends because more than half of the slots are free.
func (v *vocab) number(token string) uint32 {
	hash := maphash.String(v.seed, token)
	tag := tagOf(hash)
	for i := hash % slots; ; i = (i + 1) % slots {
		n := v.table[i]
		if n == 0 {
			return none
		}
		if n ^= tag; n < 1<<numberBits && string(v.token(n-1)) == token {
			return n - 1
		}
	}
}
