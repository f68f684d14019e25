package config

import (
	"maps"
	"testing"
)

func TestHeaderMap(t *testing.T) {
	t.Parallel()
	for text, want := range map[Secret]map[string]string{
		"":                           {},
		"api-key=s3cr3t":             {"Api-Key": "s3cr3t"},
		" a = b , c=d%2Ce=f ,":       {"A": "b", "C": "d,e=f"},
		"authorization=Bearer%20x=y": {"Authorization": "Bearer x=y"},
		"name":                       nil,
		"=value":                     nil,
		"a=":                         nil,
		"a=b%0d%0ax":                 nil,
		"two words=x":                nil,
		"a=%zz":                      nil,
	} {
		got, ok := (&Traces{Headers: text}).HeaderMap()
		if ok != (want != nil) || !maps.Equal(got, want) {
			t.Errorf("HeaderMap(%q) = %q, %t, want %q", text.Reveal(), got, ok, want)
		}
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	a, same, other := Config{Listen: ":1"}, Config{Listen: ":1"}, Config{Listen: ":2"}
	if a.Hash() == 0 || a.Hash() != same.Hash() || a.Hash() == other.Hash() {
		t.Errorf("Hash() = %x, %x for the same and %x for another configuration", a.Hash(), same.Hash(), other.Hash())
	}
	if float64(a.Hash()) >= 1<<53 {
		t.Errorf("Hash() = %d does not fit in a float", a.Hash())
	}
}
