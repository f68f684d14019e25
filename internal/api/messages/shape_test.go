package messages

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// Every key of a request is refused in another spelling, wherever it stands.
func TestOtherSpellings(t *testing.T) {
	t.Parallel()
	lists := map[string]bool{"messages": true, "tools": true, "content": true, "mcp_servers": true}
	known := map[string]bool{}
	var walk func(s chat.Shape, before, after string, depth int)
	walk = func(s chat.Shape, before, after string, depth int) {
		for key, inner := range s {
			known[key] = true
			for _, spelling := range []string{strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:], strings.Replace(key, "s", "ſ", 1), strings.Replace(key, "k", "\\u212a", 1)} {
				if spelling == key {
					continue
				}
				body := before + "{\"" + spelling + "\":1}" + after
				_, err := Parse([]byte(body))
				if f := fault.From(err); f.Kind != fault.Invalid || !strings.Contains(f.Message, "is "+key+" in another spelling") {
					t.Errorf("Parse(%s) = %v: %s; want a 400 about %s", body, f.Kind, f.Message, key)
				}
			}
			if inner == nil || depth == 0 { // a shape may hold itself
				continue
			}
			open, closing := "{\""+key+"\":", "}"
			if lists[key] {
				open, closing = open+"[", "]"+closing
			}
			walk(inner, before+open, closing+after, depth-1)
		}
	}
	walk(bodyShape, "", "", 4)

	// What the parser looks for is in the shape.
	reads := regexp.MustCompile(`(?:\.(?:Member|Given)\(|(?:required|string|id)\(\w+, )"([a-z_]+)"`)
	found := 0
	for _, file := range []string{"parse.go", "content.go", "system.go", "tools.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reads.FindAllSubmatch(source, -1) {
			found++
			if !known[string(m[1])] {
				t.Errorf("%s reads the key %s, which the shape does not have", file, m[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d keys in the source, want at least 30", found)
	}
}
