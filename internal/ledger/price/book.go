package price

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Book finds the prices of models. It is immutable and safe for concurrent use.
type Book struct {
	series map[model]*Series
}

// model is what a series of entries is about. Vendor is empty for ids of the catalog.
type model struct{ vendor, name string }

// Series has the prices of one model at all times.
type Series struct {
	entries []*Entry // those with precedence first
	book    *Book    // that it is in; nil: in none
	vendor  string   // whose names the book knows the models by; empty: the prices are those of an id of the catalog
}

// NewBook returns a book of lists of entries. Where entries of several lists are valid at a moment, that of the last list
// counts; within a list that which is valid since later.
func NewBook(lists ...[]*Entry) *Book {
	b := &Book{series: map[model]*Series{}}
	for _, list := range slices.Backward(lists) {
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b *Entry) int { return cmp.Compare(b.From.Unix(), a.From.Unix()) })
		for _, e := range list {
			key := model{e.Vendor, e.Model}
			s := b.series[key]
			if s == nil {
				s = &Series{book: b, vendor: e.Vendor}
				b.series[key] = s
			}
			s.entries = append(s.entries, e)
		}
	}
	return b
}

// Sealed checks an entry that was put together by a program, and gives it its version.
func Sealed(e Entry) (*Entry, error) {
	if err := e.seal(); err != nil {
		return nil, err
	}
	return &e, nil
}

// Flat returns prices that are the same at all times: those of Of.
func Flat(input, output Rate) *Series {
	e, err := Sealed(Entry{Model: "flat", Rates: Of(input, output)})
	if err != nil {
		return nil // a rate out of range is no price
	}
	return &Series{entries: []*Entry{e}}
}

// dated is what vendors add to the name of a model for a fixed state of it, which costs the same.
var dated = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|20\d{6})$`)

// Find returns the prices of a model: those of its id in the catalog and, where these say nothing about a moment, those of the
// vendor's list for what the vendor calls it. It returns nil if there are none.
func (b *Book) Find(id, vendor, upstream string) *Series {
	own, listed := b.series[model{"", id}], b.listed(vendor, upstream)
	switch {
	case own == nil:
		return listed
	case listed == nil:
		return own
	}
	return &Series{entries: slices.Concat(own.entries, listed.entries)}
}

// listed returns the prices of what a vendor calls a model, or nil. No vendor is one whose list is not known.
func (b *Book) listed(vendor, upstream string) *Series {
	if vendor == "" {
		return nil
	}
	upstream = strings.TrimPrefix(upstream, "models/")
	if s := b.series[model{vendor, upstream}]; s != nil {
		return s
	}
	if at := dated.FindStringIndex(upstream); at != nil {
		return b.series[model{vendor, upstream[:at[0]]}]
	}
	return nil
}

// Entries returns all entries of the book by vendor and model, for each of them those with precedence first. Entries of ids of the
// catalog come first.
func (b *Book) Entries() []*Entry {
	keys := slices.SortedFunc(maps.Keys(b.series), func(a, b model) int {
		return cmp.Or(cmp.Compare(a.vendor, b.vendor), cmp.Compare(a.name, b.name))
	})
	var all []*Entry
	for _, key := range keys {
		all = append(all, b.series[key].entries...)
	}
	return all
}

// At returns the entry of a moment in Unix seconds, or nil. s may be nil.
func (s *Series) At(unix int64) *Entry {
	if s == nil {
		return nil
	}
	for _, e := range s.entries {
		if e.valid(unix) {
			return e
		}
	}
	return nil
}

// Served returns the prices of a call that the vendor has answered with another model than the one that was called; empty: it
// has not. Prices that an operator has set for an id of the catalog hold for whatever answers. It returns nil if the list has
// no prices of that model. s may be nil.
func (s *Series) Served(model string) *Series {
	if s == nil || model == "" || s.vendor == "" || s.book == nil {
		return s
	}
	return s.book.Find("", s.vendor, model)
}

// Entries returns all entries of the series, those with precedence first.
// s may be nil.
func (s *Series) Entries() []*Entry {
	if s == nil {
		return nil
	}
	return slices.Clone(s.entries)
}

//go:embed prices.json
var listed []byte

// Listed returns the list that comes with the program, and the day on which it was reviewed. The entries must not be changed.
func Listed() ([]*Entry, string) {
	l := list()
	return l.Prices, l.Reviewed
}

// listBook is the book of the list alone.
var listBook = sync.OnceValue(func() *Book { return NewBook(list().Prices) })

type listing struct {
	Reviewed string   `json:"reviewed"`
	Prices   []*Entry `json:"prices"`
}

// list decodes the embedded list once, when it is first needed. A test decodes it, so it is known to be good.
var list = sync.OnceValue(func() listing {
	var l listing
	if err := json.Unmarshal(listed, &l); err != nil {
		panic(fmt.Sprintf("price: the embedded list: %v", err))
	}
	return l
})
