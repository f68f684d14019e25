package models

import (
	"strings"
	"testing"
)

func TestEvaluate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1+2*3":                   "7",
		"(1+2)*3":                 "9",
		"10-4-3":                  "3",
		"2*-3":                    "-6",
		"3 - -5":                  "8",
		"3--5":                    "",
		"2**3":                    "",
		"7//2":                    "",
		"1/3":                     "0.3333333333",
		"0.1+0.2":                 "0.3",
		"2^10":                    "1024",
		"010+1":                   "11",
		"1/0":                     "undefined (division by zero)",
		"(2+3":                    "",
		"2 3":                     "",
		"":                        "",
		"1.2.3+1":                 "",
		strings.Repeat("(", 1e5):  "",
		strings.Repeat("- ", 1e5): "",
	} {
		if got := evaluate(text); got != want {
			t.Errorf("evaluate(%.20q) = %q, want %q", text, got, want)
		}
	}
}
