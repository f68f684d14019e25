package account

import (
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

func TestParseEmail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 254-len("@example.com")) + "@example.com"
	for _, tt := range []struct{ in, want string }{
		{"ana@example.com", "ana@example.com"},
		{"  Ana@Example.COM ", "ana@example.com"},
		{"owner@localhost", "owner@localhost"},
		{"ünal@example.com", "ünal@example.com"},
		{long, long},
		{"a" + long, ""},
		{strings.Repeat("a", 30<<20) + "@example.com", ""},
		{"", ""},
		{"ana", ""},
		{"Ana <ana@example.com>", ""},
		{"ana@example.com\r\nBcc: all@example.com", ""},
		{"\u212aim@example.com", ""}, // the Kelvin sign is k in lower case
		{"\u0130da@example.com", ""}, // and this is i
	} {
		got, err := ParseEmail(tt.in)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("ParseEmail(%.40q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
		if err != nil && (!fault.Is(err, fault.Invalid) || len(err.Error()) > 400) {
			t.Errorf("ParseEmail(%.40q) = %.400v, want a short complaint", tt.in, err)
		}
	}
}
