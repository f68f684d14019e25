package main

import "testing"

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: 200, 1 << 20: 200, 20 << 20: 200, 40 << 20: 100, 64 << 20: 62, 80 << 20: 50, 1 << 40: 50,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("percentFor(%d MiB) = %d, want %d", live>>20, got, want)
		}
	}
}
