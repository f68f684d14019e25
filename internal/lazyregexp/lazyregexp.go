// Package lazyregexp is regular expressions that are compiled when they are first used.
//
// A few dozen of them at the top of a package cost milliseconds of every start and megabytes of every
// idle process, whether anybody needs them or not. The price: a wrong one
// panics when it is used, not when the program starts, so a test has to use it.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression; its methods are those of regexp.Regexp.
type Regexp struct {
	source string
	once   sync.Once
	re     *regexp.Regexp
}

// New returns a regular expression that panics at its first use if it cannot be compiled.
func New(source string) *Regexp { return &Regexp{source: source} }

func (r *Regexp) compiled() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.source) })
	return r.re
}

func (r *Regexp) String() string { return r.source }

func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

func (r *Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }

func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

func (r *Regexp) ReplaceAllString(s, with string) string {
	return r.compiled().ReplaceAllString(s, with)
}

func (r *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, with)
}

func (r *Regexp) Split(s string, n int) []string { return r.compiled().Split(s, n) }
