package excerpt_test

import (
	"strings"
	"testing"

	"sluice/internal/kit/excerpt"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		most int
		want string
	}{
		{"", 3, ""},
		{"short", 5, "short"},
		{"longer", 5, "longe…"},
		{strings.Repeat("é", 60), 100, strings.Repeat("é", 50) + "…"},
		{"aéé", 4, "aé…"},         // half an é is left out
		{"\xffa", 2, "\xffa"},     // short: as it was sent
		{"\xffabc", 3, "ab…"},     // shortened: valid
		{"a\xff\xfebc", 4, "ab…"}, // wherever it is not
	} {
		if got := excerpt.Of(tt.in, tt.most); got != tt.want {
			t.Errorf("Of(%q, %d) = %q, want %q", tt.in, tt.most, got, tt.want)
		}
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		most int
		want string
	}{
		{"", 3, ""},
		{"short", 5, "short"},
		{"longer", 5, "longe"},
		{"aéé", 4, "aé"},
		{"\xffa", 2, "a"}, // short, and valid all the same
	} {
		if got := excerpt.Head(tt.in, tt.most); got != tt.want {
			t.Errorf("Head(%q, %d) = %q, want %q", tt.in, tt.most, got, tt.want)
		}
	}
}
