// Package order sorts slices of structs with little machine code.
//
// slices.SortFunc is compiled again for every type of element: 9 KB of code and 7 KB of tables each, which
// made 0.6 MB of the binary for lists that are seldom longer than a page. Here all types share one
// sort, which moves elements by reflection, and only the call of the comparison is compiled for each. That takes
// about twice as long, so a hot path uses slices. Slices of pointers share code anyway.
package order

import "sort"

// By sorts list in the order of compare, like slices.SortFunc. Equal elements may change places.
func By[E any](list []E, compare func(a, b E) int) {
	sort.Slice(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}

// StablyBy sorts list in the order of compare and keeps equal elements in the order they had, like
// slices.SortStableFunc.
func StablyBy[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
