package chat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
)

func TestSample(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("A", 50) + strings.Repeat("m", 1000) + strings.Repeat("Z", 50)
	for _, tt := range []struct{ content, want string }{
		{`"Hello, ÄRGER \n"`, `"hello, ÄrGER \n"`},
		{`""`, `""`},
		{`[{"type":"text","text":"One"},{"type":"image_url","image_url":{"url":"https://example.com/A.png"}},{"type":"text","text":"Two"}]`, `"one""two"`},
		{`"` + long + `"`, `"` + strings.Repeat("a", 19) + " " + strings.Repeat("z", 19) + `"`},
	} {
		req, err := chat.Parse(fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%s}]}`, tt.content))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.NewReplacer("Är", "Är").Replace(tt.want)
		if got := string(req.Messages[0].Content.AppendSample(nil, 40)); !strings.EqualFold(got, want) || got != strings.Map(lowerASCII, got) {
			t.Errorf("Sample(%.60s) = %q, want %q", tt.content, got, want)
		}
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		content string
		want    []string // head and tail of each part
	}{
		{`"Hello"`, []string{`"Hello"`, ""}},
		{`""`, []string{`""`, ""}},
		{`"` + strings.Repeat("a", 50) + `"`, []string{`"aaaaaaaaa`, `aaaaaaaaa"`}},
		{`[{"type":"text","text":"One"},{"type":"text","text":"` + strings.Repeat("b", 50) + `"}]`, []string{`"One"`, "", `"bbbbbbbbb`, `bbbbbbbbb"`}},
	} {
		req, err := chat.Parse(fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%s}]}`, tt.content))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := 0; ; i++ {
			head, tail, ok := req.Messages[0].Content.Ends(i, 20)
			if !ok {
				break
			}
			got = append(got, string(head), string(tail))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("Ends(%s) = %q, want %q", tt.content, got, tt.want)
		}
	}
}

func lowerASCII(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + ('a' - 'A')
	}
	return r
}
