package tokens

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// floorOf is the floor of a text fed in pieces of the given size.
func floorOf(text string, size int) int {
	var f Floor
	f.End()
	for len(text) > size {
		f.Add([]byte(text[:size]))
		text = text[size:]
	}
	f.Add([]byte(text))
	f.End()
	return f.Tokens()
}

// TestLongestTokens looks at every token of the vocabulary.
func TestLongestTokens(t *testing.T) {
	t.Parallel()
	most := map[runeKind]int{}
	for n := range vocabulary().ends {
		held := map[runeKind]int{}
		for _, c := range vocabulary().token(uint32(n)) {
			switch k := kinds[c]; {
			case c >= 0x80:
				held[foreign]++
			default:
				held[k]++
			}
		}
		for k, n := range held {
			most[k] = max(most[k], n)
		}
	}
	for k, want := range map[runeKind]int{letter: mostLetters, digit: mostDigits, space: mostSpaces, mark: mostMarks, foreign: mostForeign} {
		if most[k] != want {
			t.Errorf("the longest token has %d bytes of kind %d, want %d", most[k], k, want)
		}
	}
	if most[doubtful] > mostMarks {
		t.Errorf("the longest token has %d control characters, want at most %d", most[doubtful], mostMarks)
	}
}

// scraps are what the splits of the tokenizer depend on.
var scraps = []string{
	"a", "the", "Bar", "HTTP", "x", "re", "S", "lL", "1", "12", "2026", "٣", "½", " ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000", "\u2028",
	"'", "’", "s", "ll", "/", "//", ",", ".", "((", "_", "-", "—", "…", "é", "é", "ß", "漢字", "かな", "привет", "😀", "\u200d", "\u0301", "\x00", "\x7f", "ǅ", "ʰ", "क", "्",
	strings.Repeat(" ", 300), strings.Repeat("a", 90), strings.Repeat("-", 400), strings.Repeat("漢", 120), strings.Repeat("\n", 200), strings.Repeat("7", 50), strings.Repeat("aB", 20),
}

func TestFloorIsNoHigherThanTheCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(scraps), 0, 60).Draw(t, "scraps"), "")
		size := rapid.IntRange(1, 50).Draw(t, "size")
		if got, most := floorOf(text, size), Count(text); got > most {
			t.Fatalf("Floor(%q) = %d, want at most the count, %d", text, got, most)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if got, most := floorOf(text, 7), Count(text); got > most {
			t.Fatalf("Floor(%q) = %d, want at most the count, %d", text, got, most)
		}
	})
}

func TestFloorIsClose(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text  string
		share float64 // of the count that the floor reaches at least
	}{
		"English":    {strings.Repeat("The water rises, and the gate holds it back until the morning comes. Then the gate opens.\n", 50), 0.9},
		"a table":    {strings.Repeat("2026-11-15,48213,0.75,EUR,19\n", 100), 0.8},
		"code":       {strings.Repeat("\tif err := c.Add(block[:end]); err != nil {\n\t\treturn fmt.Errorf(\"adding: %w\", err)\n\t}\n", 50), 0.6},
		"Russian":    {strings.Repeat("Вода прибывает и ворота держат её до утра потом они открываются ", 50), 0.4},
		"one space":  {strings.Repeat(" ", 1<<20), 0.9},
		"many lines": {strings.Repeat("word\n", 1000), 0.9},
	} {
		count := Count(tt.text)
		if got := floorOf(tt.text, 100); float64(got) < tt.share*float64(count) || got > count {
			t.Errorf("%s: Floor = %d and the count is %d, want at least %v of it", name, got, count, tt.share)
		}
	}
}

func TestCounter(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("The gate holds 漢字 until the morning comes. ", 8000) // several blocks
	c := Counter{}
	for rest := text; rest != ""; {
		n := min(len(rest), 1000)
		if err := c.Add([]byte(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := c.End(); err != nil || c.Tokens() != count(text) {
		t.Errorf("Counter = %d, %v, want %d", c.Tokens(), err, count(text))
	}
	if got := Count(text); got != count(text) {
		t.Errorf("Count = %d, want %d", got, count(text))
	}

	seen := 0
	spy := func(s string) int { seen += len(s); return len(s) / 4 }
	c = Counter{Most: 20_000, Count: spy}
	if err := c.Add([]byte(text)); !errors.Is(err, ErrEnough) {
		t.Errorf("Add beyond Most = %v, want ErrEnough", err)
	}
	if seen == 0 || seen > 2*Block {
		t.Errorf("%d bytes were counted to find more than 20000 tokens, want at most %d", seen, 2*Block)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	seen = 0
	c = Counter{Context: ctx, Count: spy}
	if err := c.Add([]byte(text)); !errors.Is(err, context.Canceled) || seen > 0 {
		t.Errorf("Add after its context ended = %v with %d bytes counted, want it canceled", err, seen)
	}
}

// leaving is a context that ends as soon as somebody waits for its end.
type leaving struct {
	context.Context
	cancel context.CancelFunc
}

func (l leaving) Done() <-chan struct{} {
	l.cancel()
	return l.Context.Done()
}

// TestCounterWaitsForAPlace takes every place: another count must wait, as long as its context allows.
func TestCounterWaitsForAPlace(t *testing.T) {
	t.Parallel()
	block := []byte(strings.Repeat("word ", Block/5+1))
	var hold func(left int)
	hold = func(left int) {
		if left > 0 {
			c := Counter{Count: func(string) int { hold(left - 1); return 0 }}
			if err := c.Add(block); err != nil {
				t.Error(err)
			}
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		counted := false
		c := Counter{Context: leaving{ctx, cancel}, Count: func(string) int { counted = true; return 0 }}
		if err := c.Add(block); !errors.Is(err, context.Canceled) || counted {
			t.Errorf("Add without a free place = %v, counted: %t, want it to wait until it is canceled", err, counted)
		}
	}
	hold(cap(places))
}

func TestAbout(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("The gate holds until the morning comes. ", 20_000)
	want := count(text)
	if got := About(text); got < want*99/100 || got > want*101/100 {
		t.Errorf("About = %d, want about %d", got, want)
	}
	if got := About("hello world"); got != 2 {
		t.Errorf("About = %d, want 2", got)
	}
}
