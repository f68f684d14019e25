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

func TestLimitFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ live, fixed, want int64 }{
		{0, 0, 16}, {10, 5, 10 + 20 + 5 + 16}, {40, 100, 40 + 40 + 100 + 16}, {1000, 10, 1000 + 500 + 10 + 16},
	} {
		if got := limitFor(uint64(c.live<<20), uint64(c.fixed<<20)); got != c.want<<20 {
			t.Errorf("limitFor(%d MiB, %d MiB) = %d, want %d MiB", c.live, c.fixed, got, c.want)
		}
	}
}
