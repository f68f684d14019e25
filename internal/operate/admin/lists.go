package admin

import (
	"slices"
	"strconv"

	"sluice/internal/kit/fault"
)

// maxPage is how many entries a list returns at most, and usualPage how many if the caller does not say.
const (
	maxPage   = 1000
	usualPage = 1000
)

// Cursor asks for up to Limit entries of a list, after the one that the last page ended with. Every list takes one.
type Cursor struct {
	// After is Next of the page before; empty for the first one.
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"` // at most 1,000, which is also the default
}

// limit returns how many entries to return.
func (c Cursor) limit() int {
	if c.Limit < 1 {
		return usualPage
	}
	return min(c.Limit, maxPage)
}

// number returns After of a list whose cursor is a number. 0 stands for the first page.
func (c Cursor) number() (int64, error) {
	if c.After == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(c.After, 10, 64)
	if err != nil || n < 1 {
		return 0, fault.New(fault.Invalid, "%q is not a cursor of this list; use next from the previous page", c.After).At("after")
	}
	return n, nil
}

// turn moves the cursor to the page after one.
func (c *Cursor) turn(next string) { c.After = next }

// Pager is a pointer to the argument of a list.
type Pager[In any] interface {
	*In
	turn(next string)
}

// All returns all entries of a list, not nil, page by page from in on. fetch returns the page that its argument asks for.
func All[In, T any, P Pager[In]](in In, fetch func(In) (List[T], error)) ([]T, error) {
	all := []T{}
	for {
		page, err := fetch(in)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if page.Next == "" {
			return all, nil
		}
		P(&in).turn(page.Next)
	}
}

// AccountPage asks for a page of what an account has.
type AccountPage struct {
	Ref string `json:"ref"`
	Cursor
}

// List is one page of a list. Next is the cursor of the page after it; it is empty if there is none.
type List[T any] struct {
	Data []T    `json:"data"`
	Next string `json:"next,omitempty"`
}

// some returns a list that is not nil: an empty one is [] in JSON, and not null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// views converts a list, which is then not nil.
func views[From, To any](list []From, view func(*From) To) []To {
	out := make([]To, len(list))
	for i := range list {
		out[i] = view(&list[i])
	}
	return out
}

// listOf returns a page that was read with a limit. cursor returns the cursor of an entry. A page that is full may have
// another one after it.
func listOf[T any](page []T, limit int, cursor func(*T) string) List[T] {
	l := List[T]{Data: some(page)}
	if len(page) > 0 && len(page) >= limit {
		l.Next = cursor(&page[len(page)-1])
	}
	return l
}

// viewsOf converts a page.
func viewsOf[From, To any](page List[From], view func(*From) To) List[To] {
	return List[To]{Data: views(page.Data, view), Next: page.Next}
}

// part returns one page of a list that is in memory as a whole.
func part[T any](all []T, c Cursor, cursor func(T) string) List[T] {
	if c.After != "" {
		i := slices.IndexFunc(all, func(x T) bool { return cursor(x) == c.After })
		all = all[i+1:] // from the start if the entry is gone
	}
	l := List[T]{Data: append([]T{}, all[:min(len(all), c.limit())]...)}
	if len(l.Data) < len(all) {
		l.Next = cursor(l.Data[len(l.Data)-1])
	}
	return l
}
