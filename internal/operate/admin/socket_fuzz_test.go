package admin

import (
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

// An argument on the socket is read, or refused as the caller's mistake.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"actor":"a","email":"b@example.com","plan":"free"}`, `{"nobody":1}`, `[]`, `null`, ``, `{"actor":`, strings.Repeat(`[`, 200)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, in := range []any{new(NewAccount), new(Target), new(UsageQuery), new(RequestQuery)} {
			if err := decode(raw, in); err != nil && fault.From(err).Kind != fault.Invalid {
				t.Errorf("decode(%q) = %v, want a fault of the caller", raw, err)
			}
		}
	})
}
