package resume

import (
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/kit/seal"
)

func FuzzLastEvent(f *testing.F) {
	for _, s := range []string{"", "0", "17", "k3jd92ma-17", "-1", "a-", "1234567890", "x y-1", "a-b-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		tag, number, err := lastEvent([]string{value})
		if err == nil && (number < 0 || len(tag) > maxTag) {
			t.Errorf("lastEvent(%q) = %q, %d", value, tag, number)
		}
	})
}

// What a stranger sends as a question or as an answer does no harm.
func FuzzStranger(f *testing.F) {
	for _, s := range []string{"", "AAAA", "\x00\x00\x00\x1dm", "\x00\x00\x00\x00", "\xff\xff\xff\xff", "read 1 n a 0 s"} {
		f.Add(s)
	}
	s := New(&Options{Nodes: node{&network{}, "node0"}, Key: seal.NewKey()})
	f.Fuzz(func(t *testing.T, sent string) {
		r, w := httptest.NewRequest("POST", NodePath, nil), httptest.NewRecorder()
		r.Header[nodeHeader] = []string{sent}
		if s.Serve(t.Context(), w, r) || w.Body.Len() > 0 {
			t.Errorf("Serve(%q) has answered", sent)
		}
		in := frames{key: s.peers.key, nonce: "n", from: strings.NewReader(sent)}
		if a, err := in.next(); err == nil || len(in.buf) > maxFrame {
			t.Errorf("the answer %q says %c", sent, a.what)
		}
	})
}
