package vendortest

import (
	"testing"
	"time"
)

func TestPromptCache(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &PromptCache{TTL: 5 * time.Minute, Most: 8}
	for _, tt := range []struct {
		name   string
		after  time.Duration
		key    string
		prompt []string
		parts  int
	}{
		{"the first", 0, "k1", []string{"system", "one"}, 0},
		{"a longer one", time.Minute, "k1", []string{"system", "one", "two"}, 2},
		{"another key", time.Minute, "k2", []string{"system", "one", "two"}, 0},
		{"another way on", time.Minute, "k1", []string{"system", "other"}, 1},
		{"a change in front", 2 * time.Minute, "k1", []string{"System", "one", "two"}, 0}, // for which there is no room
		{"used again", 4 * time.Minute, "k1", []string{"system", "one", "two"}, 3},
		{"after its time", 10 * time.Minute, "k1", []string{"system", "one", "two"}, 0},
		{"in the room of those that are gone", 10 * time.Minute, "k3", []string{"a", "b"}, 0},
		{"kept there", 10 * time.Minute, "k3", []string{"a", "b"}, 2},
	} {
		parts, bytes := c.Read(tt.key, tt.prompt, begin.Add(tt.after))
		want := 0
		for _, p := range tt.prompt[:tt.parts] {
			want += len(p)
		}
		if parts != tt.parts || bytes != want {
			t.Errorf("%s: Read = %d parts of %d bytes, want %d of %d", tt.name, parts, bytes, tt.parts, want)
		}
		if c.parts > c.Most {
			t.Errorf("%s: %d parts are kept, want at most %d", tt.name, c.parts, c.Most)
		}
	}
}
