package scene

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
)

func parsed(t *testing.T) *sfnt.Font {
	t.Helper()
	f, err := opentype.Parse(gomedium.TTF)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLegible(t *testing.T) {
	t.Parallel()
	f := parsed(t)
	for _, tt := range []struct{ prompt, want string }{
		{"a lighthouse at dusk", "a lighthouse at dusk"},
		{"  two\n lines\t", "two lines"},
		{"Möwen über Ærø, naïve façade — “ok”", "Möwen über Ærø, naïve façade — “ok”"},
		{"маяк на закате", "маяк на закате"},
		{"ένας φάρος", "ένας φάρος"},
		{"e\u0301te\u0301", "été"}, // letters and accents apart
		{"biển đẹp Ａ oﬃce", "bien đep A office"},
		{"바다의 석양", "badaui seokyang"},
		{"a cat 🐱 on the moon 🌙", "a cat on the moon"},
		{"family 👨\u200d👩\u200d👧 picnic", "family picnic"},
		{"the word 海 means sea", "the word … means sea"},
		{"夕暮れの海", ""},
		{"בית על החוף", ""},
		{"منارة عند الغسق", ""},
		{"🌊🌊🌊", ""},
		{"\x00\x07", ""},
		{"broken \xff bytes", "broken bytes"},
	} {
		if got := legible(tt.prompt, f); got != tt.want {
			t.Errorf("legible(%q) = %q, want %q", tt.prompt, got, tt.want)
		}
	}
}

// FuzzLegible checks that nothing is shown that the font has no glyph for.
func FuzzLegible(f *testing.F) {
	for _, s := range []string{"a lighthouse", "夕暮れの海 abc", "바다", "e\u0301", "\u202eabc", "한̀글"} {
		f.Add(s)
	}
	font, err := opentype.Parse(gomedium.TTF)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, prompt string) {
		got := legible(prompt, font)
		if !utf8.ValidString(got) {
			t.Errorf("legible(%q) = %q, want valid UTF-8", prompt, got)
		}
		var buf sfnt.Buffer
		for _, r := range got {
			if g, err := font.GlyphIndex(&buf, r); err != nil || g == 0 {
				t.Errorf("legible(%q) = %q, want no %q, which the font lacks", prompt, got, r)
			}
		}
	})
}

func TestFold(t *testing.T) {
	t.Parallel()
	fits := func(s string) bool { return utf8.RuneCountInString(s) <= 10 }
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one two", []string{"one two"}},
		{"one two three four", []string{"one two", "three four"}},
		{"a verylongwordwithoutend b", []string{"a", "verylongwo", "rdwithou …"}},
		{"one two three four five six seven eight", []string{"one two", "three four", "five six …"}},
	} {
		if got := fold(tt.text, 3, fits); !slices.Equal(got, tt.want) {
			t.Errorf("fold(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestCaptionIsWritten checks that text is drawn, two lines of it, whatever the prompt.
func TestCaptionIsWritten(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{"a lighthouse", "夕暮れの海", strings.Repeat("word ", 6000), strings.Repeat("x", 32000)} {
		text, err := captionText(prompt, "sea, dusk", 854, 480)
		if err != nil {
			t.Fatal(err)
		}
		blocks, in := 0, false // of rows with ink
		for r := range text.h {
			ink := slices.ContainsFunc(text.line(r), func(a uint8) bool { return a > 128 })
			if ink && !in {
				blocks++
			}
			in = ink
		}
		if blocks < 2 {
			t.Errorf("the caption of %.20q has %d lines, want 2 or more", prompt, blocks)
		}
	}
}
