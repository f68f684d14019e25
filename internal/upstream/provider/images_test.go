package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// withImages is a request whose second message has the images behind a text.
func withImages(t *testing.T, urls ...string) *chat.Request {
	t.Helper()
	body := []byte(`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"?"}`)
	for _, u := range urls {
		body = append(body, `,{"type":"image_url","image_url":{"url":`...)
		body = append(jsonscan.AppendQuoted(body, u), `}}`...)
	}
	req, err := chat.Parse(append(body, `]}]}`...))
	if err != nil {
		t.Fatalf("Parse(%q) = %v", urls, err)
	}
	return req
}

func TestCheckAddresses(t *testing.T) {
	t.Parallel()
	const pixel = "data:image/png;base64,AAAA"
	anywhere, inside := &catalog.Model{ID: "m"}, &catalog.Model{ID: "m", NoImageURLs: true}
	at := func(i int) string { return fmt.Sprintf("messages[1].content[%d].image_url.url", i) }
	for _, tt := range []struct {
		urls           []string
		public, within string // where a model elsewhere, and one inside our network, refuses it; empty: it does not
	}{
		{nil, "", ""},
		{[]string{pixel, "DATA:image/png;base64,AAAA"}, "", ""},
		{[]string{"https://example.com/a.png"}, "", at(1)},
		{[]string{"HTTPS://Example.com:8443/a.png?x=1#f"}, "", at(1)},
		{[]string{"http://93.184.216.34/a.png"}, "", at(1)},
		{[]string{pixel, "https://example.com/a.png"}, "", at(2)},
		{[]string{pixel, "https://example.com/a.png", "http://169.254.169.254/latest/meta-data/"}, at(3), at(2)},
		{[]string{"http://169.254.169.254/latest/meta-data/iam/"}, at(1), at(1)},
		{[]string{"http://metadata.google.internal/computeMetadata/v1/"}, at(1), at(1)},
		{[]string{"http://localhost:11434/api/tags"}, at(1), at(1)},
		{[]string{"http://127.0.0.1/"}, at(1), at(1)},
		{[]string{"http://0x7f.1/"}, at(1), at(1)},
		{[]string{"http://2130706433/"}, at(1), at(1)},
		{[]string{"http://[::1]/"}, at(1), at(1)},
		{[]string{"http://[::ffff:169.254.169.254]/"}, at(1), at(1)},
		{[]string{"http://10.0.0.7/"}, at(1), at(1)},
		{[]string{"http://ollama:11434/"}, at(1), at(1)},
		{[]string{"http://localhost./"}, at(1), at(1)},
		{[]string{"http://user@example.com/"}, at(1), at(1)},
		{[]string{"http://example.com@169.254.169.254/"}, at(1), at(1)},
		{[]string{"http://example.com\\@169.254.169.254/"}, at(1), at(1)},
		{[]string{"http://169.254.\t169.254/"}, at(1), at(1)},
		{[]string{"http:///etc/passwd"}, at(1), at(1)},
		{[]string{"http://①②⑦.⓪.⓪.①/"}, at(1), at(1)},
		{[]string{"http://%31%32%37.0.0.1/"}, at(1), at(1)},
		{[]string{"https://example.com/" + strings.Repeat("a", 9000)}, at(1), at(1)},
	} {
		req := withImages(t, tt.urls...)
		for m, want := range map[*catalog.Model]string{anywhere: tt.public, inside: tt.within} {
			err := provider.CheckAddresses(req, m)
			f, ok := errors.AsType[*fault.Fault](err)
			if got := fault.From(err); want == "" && err != nil || want != "" && (!ok || f.Kind != fault.Invalid || f.Param != want || !strings.Contains(f.Message, "data: URL")) {
				t.Errorf("CheckAddresses(%.80q, inside: %t) = %v at %q, want 400 at %q", tt.urls, m.NoImageURLs, err, got.Param, want)
			}
		}
	}
	if got := provider.Remote(withImages(t, pixel)); got != "" {
		t.Errorf("Remote of a data: URL = %q, want none", got)
	}
	if got := provider.Remote(withImages(t, pixel, "https://example.com/a.png")); got != at(2) {
		t.Errorf("Remote = %q, want %q", got, at(2))
	}
}
