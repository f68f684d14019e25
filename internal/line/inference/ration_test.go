package inference

import (
	"strconv"
	"testing"
	"time"
)

// No more accounts than the bound have prompts counted in one minute.
func TestMostRationed(t *testing.T) {
	t.Parallel()
	var r ration
	now := time.Unix(1_800_000_000, 0)
	for i := range mostRationed {
		if !r.take(strconv.Itoa(i), 1, mostCounted, now) {
			t.Fatalf("account %d has no ration, want %d to have one", i, mostRationed)
		}
	}
	if r.take("one more", 1, mostCounted, now) {
		t.Error("one account more has a ration")
	}
	if !r.take("0", mostCounted-1, mostCounted, now) || r.take("0", 1, mostCounted, now) {
		t.Errorf("an account that has a ration may not use %d bytes of it, or more", mostCounted)
	}
	if !r.take("one more", mostCounted, mostCounted, now.Add(time.Minute)) {
		t.Error("an account has no ration in the next minute")
	}
}
