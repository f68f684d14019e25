package scene

import (
	"strings"
	"unicode"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/text/unicode/norm"
)

// longestCaption is how many characters of a prompt are considered for its caption. More never fit.
const longestCaption = 400

// legible returns a prompt as far as the font can show it. The font has Latin, Greek and Cyrillic
// letters.
//
//   - A letter that the font has in a simpler form is shown in that form: ﬃ as ffi, ế as e, Ａ as A.
//   - Korean is transcribed to Latin letters, since its script says how it sounds.
//   - Words of other scripts become an ellipsis; emoji and other signs are dropped.
//   - If less than half of the letters are left, the prompt is not worth showing and the result is empty.
func legible(prompt string, f *sfnt.Font) string {
	var buf sfnt.Buffer
	shown := func(r rune) bool {
		g, err := f.GlyphIndex(&buf, r)
		return err == nil && g != 0
	}
	var out strings.Builder
	letters, lost := 0, 0
	gap := false // the output ends with an ellipsis for what was dropped
	for i, r := range []rune(norm.NFC.String(prompt)) {
		if i == longestCaption {
			break
		}
		letter := unicode.IsLetter(r)
		if letter {
			letters++
		}
		text := ""
		switch {
		case unicode.IsSpace(r):
			text = " "
		// Control and format characters, and broken UTF-8, are dropped silently.
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
		case shown(r):
			text = string(r)
		default:
			text = simpler(r, shown)
		}
		switch {
		case text != "":
			out.WriteString(text)
			gap = gap && text == " "
		case letter:
			lost++
			if !gap {
				out.WriteString(" … ")
				gap = true
			}
		}
	}
	if 2*lost > letters || letters == 0 {
		return ""
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// simpler returns a character spelled with others that the font has, or an empty string.
func simpler(r rune, shown func(rune) bool) string {
	if text := romanized(r); text != "" {
		return text
	}
	// Decompose it, and drop the accents.
	var out strings.Builder
	for _, part := range norm.NFKD.String(string(r)) {
		switch {
		case unicode.Is(unicode.Mn, part):
		case shown(part):
			out.WriteRune(part)
		default:
			return ""
		}
	}
	return out.String()
}

// The letters of Korean syllables in the Revised Romanization, by their position in the syllable.
// Each syllable is transcribed on its own, without the changes of sound between syllables. A dash
// stands for silence.
var (
	hangulFirst  = strings.Split("g kk n d tt r m b pp s ss - j jj ch k t p h", " ")
	hangulMiddle = strings.Split("a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i", " ")
	hangulLast   = strings.Split("- k k k n n n t l k m l l l p l m p p t t ng t t k t p t", " ")
)

// romanized returns a Korean syllable in Latin letters, or an empty string for any other character.
func romanized(r rune) string {
	// Unicode orders the syllables by first consonant, vowel and last consonant, so that arithmetic
	// takes them apart.
	const first, last, middles, finals = 0xAC00, 0xD7A3, 21, 28
	if r < first || r > last {
		return ""
	}
	i := int(r - first)
	text := hangulFirst[i/(middles*finals)] + hangulMiddle[i/finals%middles] + hangulLast[i%finals]
	return strings.ReplaceAll(text, "-", "")
}
