package dashboard

import (
	"encoding/json"
	"testing"
	"time"
)

// An entry of an export has its fields in order, and leaves out those that are optional and empty.
func TestObject(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type named string
	for _, tt := range []struct {
		in   object
		want string
	}{
		{object{}, `{}`},
		{object{"b", 1, "a", "<x>", "none", (*int64)(nil), "empty", ""}, `{"b":1,"a":"\u003cx\u003e","none":null,"empty":""}`},
		{object{"at?", time.Time{}, "text?", "", "list", []object{{"kind", named("k")}}}, `{"list":[{"kind":"k"}]}`},
		{object{"at?", at, "text?", "x", "body", json.RawMessage(`{"y": 2}`)}, `{"at":"2026-03-01T12:00:00Z","text":"x","body":{"y":2}}`},
	} {
		if got, err := json.Marshal(tt.in); err != nil || string(got) != tt.want {
			t.Errorf("Marshal(%v) = %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
	if got, err := json.Marshal(object{"bad", func() {}}); err == nil {
		t.Errorf("Marshal of a function = %s, want an error", got)
	}
}
