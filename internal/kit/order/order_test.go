package order

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type pair struct{ key, place int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

// drawPairs returns pairs with few keys, so that many are equal, each with the place it stands at.
func drawPairs(t *rapid.T) []pair {
	keys := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 100).Draw(t, "keys")
	list := make([]pair, len(keys))
	for i, k := range keys {
		list[i] = pair{k, i}
	}
	return list
}

func TestBy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := drawPairs(t)
		got := slices.Clone(list)
		By(got, byKey)
		if !slices.IsSortedFunc(got, byKey) {
			t.Fatalf("By(%v) = %v, want sorted by key", list, got)
		}
		slices.SortFunc(got, func(a, b pair) int { return cmp.Compare(a.place, b.place) })
		if !slices.Equal(got, list) {
			t.Fatalf("By(%v) has other elements: %v", list, got)
		}
	})
}

func TestStablyBy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := drawPairs(t)
		got, want := slices.Clone(list), slices.Clone(list)
		StablyBy(got, byKey)
		slices.SortStableFunc(want, byKey)
		if !slices.Equal(got, want) {
			t.Fatalf("StablyBy(%v) = %v, want %v", list, got, want)
		}
	})
}
