package colour

import (
	"math"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"#3451d1": "#3451d1", "#FFFFFF": "#ffffff", "": "", "red": "", "#12345": "", "#1234567": "", "#12345g": "", "3451d1#": ""} {
		c, err := Parse(text)
		if got := c.String(); err == nil && got != want || err != nil && want != "" {
			t.Errorf("Parse(%q) = %s, %v, want %q", text, got, err, want)
		}
	}
}

func TestContrast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want float64
	}{{"#000000", "#ffffff", 21}, {"#ffffff", "#ffffff", 1}, {"#777777", "#ffffff", 4.48}, {"#0000ff", "#ffffff", 8.59}} {
		a, _ := Parse(tt.a)
		b, _ := Parse(tt.b)
		if got := Contrast(a, b); math.Abs(got-tt.want) > 0.01 || got != Contrast(b, a) {
			t.Errorf("Contrast(%s, %s) = %.2f, want %.2f both ways", tt.a, tt.b, got, tt.want)
		}
	}
}

// Text on an accent is readable whatever the accent is, and one that passes is readable on its backgrounds.
func TestAccent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		colour string
		dark   bool
		want   string // a part of the problem
	}{
		{"#3451d1", false, ""},
		{"#8ea6ff", true, ""},
		{"#ffd400", false, "choose a darker colour"},
		{"#14213d", true, "choose a lighter colour"},
	} {
		c, _ := Parse(tt.colour)
		a := NewAccent(c, tt.dark)
		if got := a.Problem(); !strings.Contains(got, tt.want) || got != "" && tt.want == "" {
			t.Errorf("NewAccent(%s, dark %t).Problem() = %q, want %q", tt.colour, tt.dark, got, tt.want)
		}
		if got := Contrast(a.On, a.Colour); got < Readable {
			t.Errorf("the text on %s has a contrast of %.2f, want %.1f", tt.colour, got, Readable)
		}
	}
	for r := 0; r < 256; r += 15 {
		for g := 0; g < 256; g += 15 {
			for b := 0; b < 256; b += 15 {
				a := NewAccent(Colour{uint8(r), uint8(g), uint8(b)}, false)
				if got := Contrast(a.On, a.Colour); got < 4.2 { // between white and ink no colour is worse
					t.Fatalf("the text on %s has a contrast of %.2f", a.Colour, got)
				}
			}
		}
	}
}
