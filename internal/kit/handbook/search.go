package handbook

import (
	"cmp"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// Bounds of a search. What is longer is cut off.
const (
	MaxQuery = 100 // bytes
	maxWords = 8   // that count
	mostHits = 20
	perPage  = 3 // sections of one page
	// mostBegun is how many words may begin with a word of the query.
	mostBegun = 50
	// enough is how many sections must have a word that is asked for alone, so that its synonyms do not count.
	enough = 5
)

// Hit is a section that a search has found.
type Hit struct {
	*Section
	// Snippet is the part of the text that fits best.
	Snippet []Piece
}

// Piece is a piece of a text. Found pieces are words of the query, in some form.
type Piece struct {
	Text  string
	Found bool
}

// index finds sections by the stems of their words.
type index struct {
	sections []*Section
	stems    map[string][]posting
	sorted   []string // the stems
	usual    float64  // the mean number of words of a section
	lengths  []int
}

// posting says how a section has a stem.
type posting struct {
	section int
	count   int // in the text
	field   float64
}

// What a word counts beside the text: in the heading of the section, in the title of the page or its name in the index, or
// in what the index says of it and in the headings above.
const (
	inHeading = 1.6
	inTitle   = 0.9
	inContext = 0.4
)

// newIndex reads all pages. The index page itself would only repeat them.
func (b *Book) newIndex() *index {
	x := &index{stems: map[string][]posting{}}
	total := 0
	for _, p := range b.Pages() {
		if p.ID == "" {
			continue
		}
		for i := range p.Sections {
			total += x.add(&p.Sections[i])
		}
	}
	x.usual = float64(total) / float64(max(1, len(x.sections)))
	x.sorted = slices.Sorted(maps.Keys(x.stems))
	return x
}

// add adds a section and returns the number of its words.
func (x *index) add(s *Section) int {
	found := map[string]posting{}
	note := func(text string, counts int, field float64) int {
		all := wordsOf(text)
		for _, w := range all {
			p := found[w.stem]
			found[w.stem] = posting{len(x.sections), p.count + counts, max(p.field, field)}
		}
		return len(all)
	}
	n := note(s.Text, 1, 0)
	note(s.Heading, 0, inHeading)
	if s.Level == 1 {
		note(path.Base(s.Page.ID), 0, inHeading)
	}
	note(s.Page.Title+" "+s.Page.Name+" "+s.Page.ID, 0, inTitle)
	note(strings.Join(s.above, " ")+" "+s.Page.Line, 0, inContext)
	for stem, p := range found {
		x.stems[stem] = append(x.stems[stem], p)
	}
	x.sections, x.lengths = append(x.sections, s), append(x.lengths, n)
	return n
}

// Search returns the sections that answer a query best, the best first.
func (b *Book) Search(query string) []Hit {
	x := b.search()
	words := x.expand(query)
	scores := map[int]*score{}
	for i, a := range words {
		x.rate(i, a.forms, scores)
	}
	ranked := slices.SortedFunc(maps.Keys(scores), func(s, t int) int {
		return cmp.Or(cmp.Compare(x.total(t, scores[t], words), x.total(s, scores[s], words)), cmp.Compare(s, t))
	})
	marks := map[string]bool{}
	for _, a := range words {
		for form := range a.forms {
			marks[form] = true
		}
	}
	var hits []Hit
	of := map[*Page]int{}
	for _, at := range ranked {
		s := x.sections[at]
		if of[s.Page]++; of[s.Page] <= perPage && len(hits) < mostHits {
			hits = append(hits, Hit{s, snippet(s.Text, marks)})
		}
	}
	return hits
}

// How much a form of a word counts.
const (
	exactly   = 1.0
	similarly = 0.7 // a synonym
	begun     = 0.6 // a word that begins so
)

// asked is a word of a query: the stems that stand for it and how much each counts, and how rare the word itself is.
type asked struct {
	forms map[string]float64
	rare  float64
}

// expand returns the words of a query that matter.
func (x *index) expand(query string) (all []asked) {
	query = strings.ToValidUTF8(query[:min(len(query), MaxQuery)], "")
	plain := meaning(query)
	for _, s := range plain[:min(len(plain), maxWords)] {
		forms := map[string]float64{}
		at, _ := slices.BinarySearch(x.sorted, s)
		for _, long := range x.sorted[at:min(len(x.sorted), at+mostBegun)] {
			if len(s) >= shortestStem && strings.HasPrefix(long, s) {
				forms[long] = begun
			}
		}
		if len(plain) > 1 || !x.known(s) {
			for _, other := range synonyms[s] {
				forms[other] = similarly
			}
		}
		forms[s] = exactly
		all = append(all, asked{forms, x.rare(s)})
	}
	return all
}

// known reports whether enough sections have a word, and a whole page is about it: somebody who asks for it alone wants no
// others.
func (x *index) known(stem string) bool {
	list, only := x.stems[stem], []string{stem}
	return len(list) >= enough && slices.ContainsFunc(list, func(p posting) bool {
		s := x.sections[p.section]
		return s.Level == 1 && (slices.Equal(meaning(s.Heading), only) || slices.Equal(meaning(path.Base(s.Page.ID)), only))
	})
}

// score is what a section has of a query: for each word the best of its forms.
type score struct {
	points  [maxWords]float64
	heading [maxWords]bool // whether the heading has it
}

// rate adds what sections have of the word i.
func (x *index) rate(i int, forms map[string]float64, scores map[int]*score) {
	for form, counts := range forms {
		list := x.stems[form]
		rare := x.rare(form)
		for _, p := range list {
			s := scores[p.section]
			if s == nil {
				s = &score{}
				scores[p.section] = s
			}
			size := 0.6 + 0.4*float64(x.lengths[p.section])/x.usual
			often := float64(p.count) / (float64(p.count) + 2*size)
			s.heading[i] = s.heading[i] || counts == exactly && p.field == inHeading
			s.points[i] = max(s.points[i], counts*rare*(often+p.field))
		}
	}
}

// rare returns how much a word says about the sections that have it: the fewer they are, the more.
func (x *index) rare(stem string) float64 {
	return math.Log(1 + float64(len(x.sections))/float64(len(x.stems[stem])+1))
}

// groupWeights make pages for looking things up step back behind those that tell what to do.
var groupWeights = map[string]float64{"Reference": 0.75, "Inside": 0.6}

// total returns what a section is worth for a query. A section that lacks a word is worth much less, and one whose heading
// is the query is worth more.
func (x *index) total(at int, s *score, words []asked) float64 {
	section := x.sections[at]
	sum, has, all, named := 0.0, 0.0, 0.0, true
	for i, a := range words {
		all += a.rare
		if s.points[i] > 0 {
			sum += s.points[i]
			has += a.rare
		}
		named = named && s.heading[i]
	}
	share := has / all
	sum *= share * share
	if named {
		more := max(0, len(meaning(section.Heading))-len(words))
		if section.Level == 1 && isQuery(meaning(path.Base(section.Page.ID)), words) { // a page is also named by its file
			more = 0
		}
		sum *= 1 + 1/float64(1+more)
		if more == 0 { // it is the query
			sum *= 1.7
		}
		if section.Level == 1 { // a whole page about it
			sum *= 1.7
		}
	}
	if !section.Page.Listed {
		sum *= 0.6
	}
	if weight, ok := groupWeights[section.Page.Group]; ok {
		sum *= weight
	}
	return sum
}

// isQuery reports whether stems are those of the query.
func isQuery(stems []string, words []asked) bool {
	return len(stems) == len(words) && !slices.ContainsFunc(stems, func(s string) bool {
		return !slices.ContainsFunc(words, func(a asked) bool { return a.forms[s] == exactly })
	})
}

// snippetWords is the length of a snippet.
const snippetWords = 32

// snippet returns the part of a text with the most marked stems, or its beginning.
func snippet(text string, marks map[string]bool) []Piece {
	all := wordsOf(text)
	best, most := 0, 0
	for from := 0; from < len(all); from += snippetWords / 4 {
		distinct := map[string]bool{}
		for _, w := range all[from:min(len(all), from+snippetWords)] {
			if marks[w.stem] {
				distinct[w.stem] = true
			}
		}
		if len(distinct) > most {
			best, most = from, len(distinct)
		}
	}
	if len(all) == 0 {
		return nil
	}
	shown := all[best:min(len(all), best+snippetWords)]
	return pieces(text, shown, marks, best > 0, best+snippetWords < len(all))
}

// pieces returns the text of words that follow each other, with those that are marked as pieces of their own.
func pieces(text string, shown []word, marks map[string]bool, cutBefore, cutAfter bool) (all []Piece) {
	at, end := shown[0].from, shown[len(shown)-1].to
	if !cutAfter {
		end = len(text)
	}
	if cutBefore {
		all = append(all, Piece{Text: "… "})
	} else {
		at = 0
	}
	for _, w := range shown {
		if !marks[w.stem] || w.from < at {
			continue
		}
		all = append(all, Piece{Text: flat(text[at:w.from])}, Piece{Text: text[w.from:w.to], Found: true})
		at = w.to
	}
	all = append(all, Piece{Text: flat(text[at:end])})
	if cutAfter {
		all = append(all, Piece{Text: " …"})
	}
	return all
}

// flat returns a piece of a text on one line. Cells and blocks that end without punctuation are kept apart by a dot.
func flat(s string) string {
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if before := b.String(); i > 0 && (before == "" || strings.ContainsAny(before[len(before)-1:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789)\"'")) {
			b.WriteString(" ·")
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}
