package tokens

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/dlclark/regexp2/v2"
	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"
)

// pattern is the one of o200k_base. The empty group makes regexp2 interpret it: the matcher that the
// library has generated from it splits "\n \n" in two and leaves out DEL.
const pattern = `(?:)[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
	`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
	`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// oracle knows the words and tokens of texts from others.
type oracle struct {
	split   *regexp2.Regexp
	library *codec.Codec
}

// check compares the words of a text with those of the pattern, and the tokens of each word with those of
// the library.
func (o *oracle) check(t rapid.TB, text string) {
	t.Helper()
	m := merger{vocab: vocabulary()}
	match, err := o.split.FindStringMatch(text)
	for rest := text; rest != ""; match, err = o.split.FindNextMatch(match) {
		if err != nil || match == nil {
			t.Fatalf("the pattern ends before %q in %q: %v", rest, text, err)
		}
		end := word(rest)
		w := readable(rest[:end])
		if w != match.String() {
			t.Fatalf("word(%q) = %q, want %q", rest, w, match.String())
		}
		rest = rest[end:]
		if strings.ContainsFunc(w, func(r rune) bool { return r == 0x7f || unicode.IsSpace(r) }) {
			continue // the library would split it again
		}
		var got []string
		start := 0
		m.tokens(w, func(end int) {
			got = append(got, w[start:end])
			start = end
		})
		if _, want, err := o.library.Encode(w); err != nil || !slices.Equal(got, want) {
			t.Fatalf("tokens of %q = %q, want %q (%v)", w, got, want, err)
		}
	}
}

func TestLikeTheLibrary(t *testing.T) {
	t.Parallel()
	o := &oracle{regexp2.MustCompile(pattern, regexp2.None), codec.NewO200kBase()}
	for n := range vocabulary().ends {
		want, err := o.library.Decode([]uint{uint(n)})
		if got := string(vocabulary().token(uint32(n))); err != nil || got != want {
			t.Fatalf("token(%d) = %q, want %q (%v)", n, got, want, err)
		}
	}
	for _, text := range []string{
		"We'RE the HTTPServer's 1234567 ǅungla'ſ…\r\n\r\n  //\n/x", "\u0301\u0301AB", "\u0301AB", "\u0301a", "aʰB", "ABʰC", "ABʰCd",
		strings.Repeat("The gate's 1,250 litres:\n\n  42 % passed!  (Ωmega, naïve) \t\n", 10), strings.Repeat("a", 3000), "a\xffb\xfe\xfd c", "\x7f\x00", "\n \n",
	} {
		o.check(t, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		o.check(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(scraps), 0, 30).Draw(t, "scraps"), ""))
	})
	rapid.Check(t, func(t *rapid.T) { o.check(t, rapid.String().Draw(t, "text")) })
}

// BenchmarkVocabulary measures what the first count of a process costs in addition.
func BenchmarkVocabulary(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		unpack()
	}
}
