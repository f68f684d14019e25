package jsonscan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"
)

// pieces are what random texts are made of: most of it plain, so that there are long runs of it.
var pieces = []string{
	"a", " ", "~", "\x7f", "plain text ", "plain text that is longer than one step of sixteen bytes ",
	"plain text that is so long that nothing has to be looked at for all of a step of sixty-four bytes, and then for another ",
	`\n`, `\"`, `\\`, `\\\\\\\"\\`, `\/`, `\u00e9`, `\ud83d\ude00`, "é", "河", "😀",
	`"`, `\x`, `\ud83d`, `\ude00`, `\u12`, "\x1f", "\x00", "\n", "\x80", "\xc3", "\xe6\xb2", "\xff", "\xed\xa0\x80", "\xc0\x80",
}

// randomText returns a text of a few pieces; faults of 1,000 pieces are some that no string may have.
func randomText(r *rand.Rand, faults int) []byte {
	var b []byte
	for range r.IntN(40) {
		n := slices.Index(pieces, `"`)
		if r.IntN(1000) < faults {
			n = len(pieces)
		}
		b = append(b, pieces[r.IntN(n)]...)
	}
	return b
}

// Both ways to look at text find the same.
func TestLook(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		b := randomText(r, 300)
		from := min(r.IntN(20), len(b)) // at any alignment
		var got, want marks
		n, wantN := look(b[from:], &got), lookPortable(b[from:], &want)
		if len(b)-from-n >= 64 {
			block := (*[64]byte)(b[from+n:])
			spell(block, &got)
			spellPortable(block, &want)
		}
		if n != wantN || got != want {
			t.Fatalf("seed %d: look(%q) = %d, %x, want %d, %x", seed, b[from:], n, got, wantN, want)
		}
	}
}

// Steps of 64 bytes read what steps of one byte do.
func TestRandomStrings(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 40_000 {
		doc := append([]byte{'"'}, randomText(r, i%3*20)...)
		if i%10 > 0 {
			doc = append(doc, '"')
		}
		doc = append(doc, randomText(r, 100)...)
		end, size, p := String(doc, 0)
		wantEnd, wantSize, want := byteByByte(doc)
		if end != wantEnd || size != wantSize || p != want {
			t.Fatalf("seed %d: String(%q) = %d, %d, %v, want %d, %d, %v", seed, doc, end, size, p, wantEnd, wantSize, want)
		}
	}
}

// byteByByte is String without haste.
func byteByByte(b []byte) (end, size int, p Problem) {
	for i := 1; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			for at := 1; at < i; {
				r, n := utf8.DecodeRune(b[at:i])
				if r == utf8.RuneError && n == 1 {
					return at, 0, NotUTF8
				}
				at += n
			}
			return i + 1, size, OK
		case c == '\\':
			n, short, p := escape(b, i)
			if p != OK {
				return i, 0, p
			}
			size += short
			i += n
		case c < ' ':
			return i, 0, Control
		default:
			size++
			i++
		}
	}
	return 0, 0, Unclosed
}
