package tokens

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCount(t *testing.T) {
	t.Parallel()
	// The figures are those of OpenAI's own tokenizer for o200k_base.
	for _, test := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"hello world", 2},
		{"supercalifragilistic", 6},
		{"We know what we are, but know not what we may be.", 14},
		{"こんにちは", 1},
	} {
		if got := Count(test.text); got != test.want {
			t.Errorf("Count(%q) = %d, want %d", test.text, got, test.want)
		}
	}
}

func TestSplitKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	const text = "a 🫠🫠 é\u0301 漢字 \U0001F468\u200d\U0001F469\u200d\U0001F467 end"
	for _, piece := range Split(text) {
		if !utf8.ValidString(piece.Text) {
			t.Errorf("Split(%q) has the piece %q, want whole characters", text, piece.Text)
		}
	}
}

func TestSplitJoinsAndCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(1, 40).Draw(t, "times"))
		var b strings.Builder
		count := 0
		for _, piece := range Split(text) {
			if piece.Text == "" || piece.Tokens < 1 {
				t.Fatalf("Split(%q) has the piece %+v, want no empty one", text, piece)
			}
			b.WriteString(piece.Text)
			count += piece.Tokens
		}
		if b.String() != text {
			t.Fatalf("Split(%q) joined = %q, want the text", text, b.String())
		}
		if want := Count(text); count != want {
			t.Fatalf("Split(%q) has %d tokens, want Count = %d", text, count, want)
		}
	})
}

func TestSplitOfBrokenText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a\xffb", "\xe6\xbc", "ok \xf0\x9f end", "a\x7fb", "\x7f", strings.Repeat("\x80", 3*window)} {
		var b strings.Builder
		for _, piece := range Split(text) {
			b.WriteString(piece.Text)
		}
		if b.String() != text {
			t.Errorf("Split(%q) joined = %q, want the text", text, b.String())
		}
	}
}

func TestCountAtOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := Count("hello world"); got != 2 {
				t.Errorf("Count(%q) = %d, want 2", "hello world", got)
			}
		})
	}
	wg.Wait()
}

func BenchmarkCount(b *testing.B) {
	for name, unit := range map[string]string{
		"prose":      "The sluice gate was opened at 06:30; 1,250 litres passed. ",
		"whitespace": " \n",
		"letters":    "漢",
		"one letter": "x",
	} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat(unit, 100_000/len(unit))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Count(text)
			}
		})
	}
}
