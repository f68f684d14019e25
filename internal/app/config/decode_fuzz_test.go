package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDecode holds three promises for any file: no panic, every mistake has a place inside the file, and
// what ${…} stands for is in no message.
func FuzzDecode(f *testing.F) {
	f.Add(example)
	f.Add(uncomment(example))
	for _, test := range wrongFiles {
		f.Add(test.text)
	}
	for _, text := range []string{"a: {,}", "a: {b: c: d}", "? x", "a: \"\\xzz\"", "a:\r\n\tb", "- - - a", "é: ü", "listen: |\n  x\n  y", "{a, b}", "[a: b]", "!!map {a: b}: c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			t.Skip("the parser's time grows with the square of the size")
		}
		const secret = "fuzzed-secret-value"
		r := &record{places: map[string]place{}, failed: map[string]bool{}}
		d := &decoder{
			record: r, file: "sluice.yaml",
			env: map[string]string{"K": secret},
			readFile: func(path string) (string, error) {
				if path == "/secret" {
					return secret, nil
				}
				return "", os.ErrNotExist
			},
		}
		c := &Config{}
		root := reflect.ValueOf(c).Elem()
		setDefaults(root)
		if d.decode([]byte(text), root) {
			r.check(c)
		}
		err := r.err()
		if err == nil {
			return
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds an expanded value: %v", err)
		}
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff")), "\n")
		all := err.(interface{ Unwrap() []error }).Unwrap()
		if len(all) > maxErrors {
			t.Errorf("%d errors, want %d at most", len(all), maxErrors)
		}
		for _, err := range all {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.File != "sluice.yaml" || e.Problem == "" || !utf8.ValidString(e.Problem) {
				t.Fatalf("the error %#v is not a mistake in the file", err)
			}
			if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > utf8.RuneCountInString(lines[e.Line-1])+1 {
				t.Errorf("%v is outside the file of %d lines", e, len(lines))
			}
		}
	})
}
