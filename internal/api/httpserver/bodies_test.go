package httpserver

import (
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// The buffer in which a long body begins is used again for the next one, so none may be left in it: neither one that is as long as
// announced, nor one that ends before.
func TestBodiesOwnTheirBytes(t *testing.T) {
	t.Parallel()
	b := NewBodies()
	type kept struct {
		want string
		got  []byte
	}
	var all []kept
	for i, size := range []int{1, 100, firstBuffer - 1, firstBuffer, firstBuffer + 1, 100_000, 8 * firstBuffer, 1_000_000} {
		for announced := range map[int64]bool{int64(size): true, firstBuffer: true, firstBuffer + 1: true, 1_000_000: true, -1: true} {
			if announced >= 0 && announced < int64(size) {
				continue
			}
			text := strings.Repeat(string(rune('a'+i)), size)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", iotest.HalfReader(strings.NewReader(text)))
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = announced
			got, release, err := b.Read(&Body{Account: "a"}, r, maxBody, 1)
			if err != nil {
				t.Fatalf("Read of %d bytes, announced as %d = %v", size, announced, err)
			}
			release()
			all = append(all, kept{text, got})
		}
	}
	for _, k := range all {
		if string(k.got) != k.want {
			t.Errorf("a body of %d %.1q has changed after others were read: it has %d bytes and begins with %.5q", len(k.want), k.want, len(k.got), k.got)
		}
	}
	if held := b.Held(); held != 0 {
		t.Errorf("Held() = %d after all were released, want 0", held)
	}
}
