package telemetry

import (
	"strings"
	"testing"
)

func TestParseParent(t *testing.T) {
	t.Parallel()
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for text, want := range map[string]string{ // what is passed on; empty: it is not valid
		"00-" + trace + "-" + span + "-01":                             "00-" + trace + "-" + span + "-01",
		"00-" + trace + "-" + span + "-00":                             "00-" + trace + "-" + span + "-00",
		"00-" + trace + "-" + span + "-03":                             "00-" + trace + "-" + span + "-01",
		"fe-" + trace + "-" + span + "-01-later":                       "00-" + trace + "-" + span + "-01",
		"fe-" + trace + "-" + span + "-01.later":                       "",
		"00-" + trace + "-" + span + "-01-later":                       "",
		"ff-" + trace + "-" + span + "-01":                             "",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":            "",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":           "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":          "",
		"00-" + trace + "-" + span + "-0":                              "",
		"00-" + trace + "-" + span + "-xx":                             "",
		"00_" + trace + "-" + span + "-01":                             "",
		"01-" + trace + "-" + span + "-01-" + strings.Repeat("x", 500): "",
		"": "",
	} {
		p, ok := parseParent(text)
		got := ""
		if ok {
			got = p.String()
		}
		if got != want {
			t.Errorf("parseParent(%q) is passed on as %q, want %q", text, got, want)
		}
	}
}

func TestCheckState(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("k=v,", 33)
	for text, good := range map[string]bool{
		"": true, "a=1": true, "a=1, b@vendor=x y": true, "a=1,,b=2": true, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE": true,
		"a": false, "a=": false, "=1": false, "A=1": false, "a=1,a=2": false, "a=1\r\nb=2": false, "a=\u00e9": false, "a=1=2": false,
		many: false, "a=" + strings.Repeat("x", 511): false,
	} {
		want := ""
		if good {
			want = text
		}
		if got := checkState(text); got != want {
			t.Errorf("checkState(%q) = %q, want %q", text, got, want)
		}
	}
}
