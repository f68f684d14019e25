package lazyregexp_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/kit/lazyregexp"
)

// Every method does what that of the package regexp does.
func TestRegexp(t *testing.T) {
	t.Parallel()
	const source, text = `(\d)(\w)`, "a1b 2c 34"
	lazy, plain := lazyregexp.New(source), regexp.MustCompile(source)
	for name, got := range map[string][2]any{
		"String":                     {lazy.String(), plain.String()},
		"MatchString":                {lazy.MatchString(text), plain.MatchString(text)},
		"FindString":                 {lazy.FindString(text), plain.FindString(text)},
		"FindStringIndex":            {lazy.FindStringIndex(text), plain.FindStringIndex(text)},
		"FindStringSubmatch":         {lazy.FindStringSubmatch(text), plain.FindStringSubmatch(text)},
		"FindStringSubmatchIndex":    {lazy.FindStringSubmatchIndex(text), plain.FindStringSubmatchIndex(text)},
		"FindAllString":              {lazy.FindAllString(text, -1), plain.FindAllString(text, -1)},
		"FindAllStringIndex":         {lazy.FindAllStringIndex(text, -1), plain.FindAllStringIndex(text, -1)},
		"FindAllStringSubmatchIndex": {lazy.FindAllStringSubmatchIndex(text, 2), plain.FindAllStringSubmatchIndex(text, 2)},
		"ReplaceAllString":           {lazy.ReplaceAllString(text, "$2$1"), plain.ReplaceAllString(text, "$2$1")},
		"ReplaceAllStringFunc":       {lazy.ReplaceAllStringFunc(text, strings.ToUpper), plain.ReplaceAllStringFunc(text, strings.ToUpper)},
		"Split":                      {lazy.Split(text, -1), plain.Split(text, -1)},
	} {
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s = %v, want %v", name, got[0], got[1])
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression does not panic when it is used")
		}
	}()
	lazyregexp.New("(").MatchString("")
}
