package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/kit/seal"
)

func TestBox(t *testing.T) {
	t.Parallel()
	plain := []byte("what was said")
	box := seal.New("purpose", "scope", "secret")
	sealed := box.Seal(plain)
	if got, err := box.Open(sealed); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("Open(Seal(%q)) = %q, %v", plain, got, err)
	}
	if bytes.Contains(sealed, plain) || bytes.Equal(sealed, box.Seal(plain)) {
		t.Error("Seal shows what is inside, or seals twice alike")
	}
	for _, other := range []seal.Box{
		seal.New("other", "scope", "secret"), seal.New("purpose", "other", "secret"), seal.New("purpose", "scope", "other"),
	} {
		if _, err := other.Open(sealed); !errors.Is(err, seal.ErrUnreadable) {
			t.Errorf("%+v opens what is not its own: %v", other, err)
		}
		if other.ID() == box.ID() {
			t.Errorf("%+v has the id of another box", other)
		}
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := box.Open(bad); err == nil {
			t.Errorf("Open accepts a change in byte %d", i)
		}
		if _, err := box.Open(sealed[:i]); err == nil {
			t.Errorf("Open accepts %d of %d bytes", i, len(sealed))
		}
	}
}

// Record is ID and Seal, wherever there is room for the result.
func TestRecord(t *testing.T) {
	t.Parallel()
	const plain = "what was said"
	box := seal.NewKey().Box("purpose", "scope", "secret")
	for _, room := range []int{0, 1, seal.Overhead - 1, seal.Overhead, 100} {
		given := append(make([]byte, 0, len(plain)+room), plain...)
		id, sealed := box.Record(given)
		if id != box.ID() {
			t.Errorf("Record with room for %d bytes = id %x, want %x", room, id, box.ID())
		}
		if got := len(sealed); got != len(plain)+seal.Overhead {
			t.Errorf("Record with room for %d bytes = %d bytes, want %d", room, got, len(plain)+seal.Overhead)
		}
		if inside := &sealed[0] == &given[0]; inside != (cap(given) >= len(plain)+seal.Overhead) {
			t.Errorf("Record with room for %d bytes, of which %d are there: in the same memory %t", room, cap(given)-len(plain), inside)
		}
		if got, err := box.Open(sealed); err != nil || string(got) != plain {
			t.Errorf("Open of Record with room for %d bytes = %q, %v, want %q", room, got, err, plain)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	same, err := seal.KeyOf(key.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	sealed := key.Box("purpose", "scope", "").Seal([]byte("plain"))
	if got, err := same.Box("purpose", "scope", "").Open(sealed); err != nil || string(got) != "plain" {
		t.Errorf("Open with the same key = %q, %v", got, err)
	}
	for _, other := range []seal.Box{seal.New("purpose", "scope", ""), seal.NewKey().Box("purpose", "scope", ""), key.Box("purpose", "scope", "more")} {
		if _, err := other.Open(sealed); err == nil {
			t.Errorf("another box opens it")
		}
	}
	for _, b := range [][]byte{nil, key.Bytes()[1:]} {
		if _, err := seal.KeyOf(b); err == nil {
			t.Errorf("KeyOf(%d bytes) = nil, want an error", len(b))
		}
	}
	for _, verb := range []string{"%v", "%s", "%+v", "%#v", "%x"} {
		if text := fmt.Sprintf(verb, key); strings.Contains(text, string(key.Bytes())) || strings.Contains(text, hex.EncodeToString(key.Bytes())) {
			t.Errorf("%s shows the key", verb)
		}
	}
}
