package front

import (
	"fmt"
	"hash/fnv"
	"strings"
	"unicode"
)

// maker is the mark of a provider: a shape, a colour, a pattern and a letter, all of which follow from the name. The same name
// has the same mark on every page and every server. They are drawn by us: logos belong to others.
type maker struct {
	letter string
	shape  string // the path of the ground, in 24 by 24 units
	detail string // the path of what lies on it
	class  string // the colour; see models.css
}

// hues is how many colours marks have.
const hues = 10

// shapes are the grounds: a circle, a square, a hexagon, a diamond, a shield, an arch and a leaf.
var shapes = []string{
	"M12 1a11 11 0 1 1 0 22a11 11 0 1 1 0-22z",
	"M6 1.500h12a4.500 4.500 0 0 1 4.500 4.500v12a4.500 4.500 0 0 1-4.500 4.500H6A4.500 4.500 0 0 1 1.500 18V6A4.500 4.500 0 0 1 6 1.500z",
	"M12 .500l10 5.750v11.500L12 23.500 2 17.750V6.250z",
	"M12 0l12 12-12 12L0 12z",
	"M2 2h20v11c0 5-4 8.500-10 10.500C6 21.500 2 18 2 13z",
	"M2 23V12a10 10 0 0 1 20 0v11z",
	"M2 2h11a9.500 9.500 0 0 1 9.500 9.500v11h-11A9.500 9.500 0 0 1 2 13z",
}

// details are what lies on the ground, each inside all shapes.
var details = []string{
	"M6 17.500h12v1.500H6z",
	"M6 5h12v1.500H6z",
	"M12 3.500a1.500 1.500 0 1 1 0 3a1.500 1.500 0 1 1 0-3z",
	"M12 17.500a1.500 1.500 0 1 1 0 3a1.500 1.500 0 1 1 0-3z",
	"M8 18a1.100 1.100 0 1 1 0 2.200a1.100 1.100 0 1 1 0-2.200zM12 18a1.100 1.100 0 1 1 0 2.200a1.100 1.100 0 1 1 0-2.200zM16 18a1.100 1.100 0 1 1 0 2.200a1.100 1.100 0 1 1 0-2.200z",
}

// makerOf returns the mark of a provider.
func makerOf(name string) maker {
	name = strings.ToLower(strings.TrimSpace(name))
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	sum := h.Sum64()
	pick := func(n int) int {
		i := sum % uint64(n)
		sum /= uint64(n)
		return int(i)
	}
	m := maker{letter: "?", class: fmt.Sprintf("h%d", pick(hues)), shape: shapes[pick(len(shapes))], detail: details[pick(len(details))]}
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			m.letter = strings.ToUpper(string(r))
			break
		}
	}
	return m
}
