package sandbox

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
)

var (
	sortOrder  = regexp.MustCompile(`^(?:sort|alphabeti[sz]e|(?:order|rank|arrange)\b.*\b(?:these|the|this|list|numbers|words|names|items)\b)`)
	descending = regexp.MustCompile(`descending|decreasing|reverse|(?:largest|biggest|highest|high) (?:first|to)|z (?:to|-) ?a`)
	sortFluff  = regexp.MustCompile(`(?i)^\s*\w+\s+(?:the|these|this|my)?\s*(?:following\s+)?(?:numbers|words|names|items|list|values|lines)?\s*|\s+(?:in|from|by|alphabetically|numerically|ascending|descending)\b.*$`)
	totalCue   = regexp.MustCompile(`\b(sum|total|average|mean|largest|biggest|highest|maximum|smallest|lowest|minimum)\b(?: value| number)?(?: of| in| from| among|:)`)
	listSplit  = regexp.MustCompile(`\s*[,;]\s*(?:and\s+|or\s+)?|\s+(?:and|or|&)\s+`)
)

// list is a list as the prompt wrote it, so that it can be written back the same way.
type list struct {
	items             []string
	open, join, close string
}

func (l list) String() string { return l.open + strings.Join(l.items, l.join) + l.close }

// parseList reads lines, commas, "a, b and c", an array, or plain words.
func parseList(text string) list {
	l := list{join: ", "}
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text, _, _ = strings.Cut(inner, "]")
		l.open, l.close = "[", "]"
	}
	if strings.Contains(text, "\n") {
		l.join, l.items = "\n", strings.Split(text, "\n")
	} else if l.items = listSplit.Split(strings.TrimRight(text, ".?!"), -1); len(l.items) == 1 {
		l.items = strings.Fields(l.items[0])
	}
	for i := range l.items {
		l.items[i] = strings.TrimSpace(l.items[i])
	}
	l.items = slices.DeleteFunc(l.items, func(item string) bool { return item == "" })
	return l
}

// sorting orders a list, numbers by value and before words.
func sorting(p *prompt) (answer, bool) {
	order, matter := task(p.text)
	if !sortOrder.MatchString(order) || strings.Contains(order, " by ") && !strings.Contains(order, "alphabet") {
		return answer{}, false
	}
	if matter == "" {
		matter = sortFluff.ReplaceAllString(head(plain(p.text)), "")
	}
	l := parseList(matter)
	if len(l.items) < 2 {
		return answer{}, false
	}
	keys := make(map[string]*big.Rat)
	for _, item := range l.items {
		keys[item], _ = rational(item)
	}
	slices.SortStableFunc(l.items, func(a, b string) int {
		switch x, y := keys[a], keys[b]; {
		case x != nil && y != nil:
			return x.Cmp(y)
		case x != nil:
			return -1
		case y != nil:
			return 1
		}
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	})
	way := "ascending"
	if descending.MatchString(order) {
		way = "descending"
		slices.Reverse(l.items)
	}
	return answer{
		value: l.String(), trace: "The order is " + way + ": numbers by value, words by letters.",
		full: []string{"In " + way + " order: " + l.String(), "Sorted (" + way + "): " + l.String()},
	}, true
}

// summary is one number about several: their sum, average, largest or smallest.
func summary(p *prompt) (answer, bool) {
	text := strings.ToLower(head(p.text))
	at := totalCue.FindStringSubmatchIndex(text)
	if at == nil || strings.ContainsAny(text[at[1]:], "*/^+") {
		return answer{}, false
	}
	var values []*big.Rat
	total := new(big.Rat)
	for _, n := range numbers(p.text, true) {
		if value, ok := rational(n); ok {
			values = append(values, value)
			total.Add(total, value)
		}
	}
	if len(values) < 2 {
		return answer{}, false
	}
	slices.SortFunc(values, (*big.Rat).Cmp)
	value, kind := total, text[at[2]:at[3]]
	switch kind {
	case "average", "mean":
		value.Quo(total, big.NewRat(int64(len(values)), 1))
	case "smallest", "lowest", "minimum":
		value = values[0]
	case "largest", "biggest", "highest", "maximum":
		value = values[len(values)-1]
	}
	result := decimal(value)
	return answer{
		value: result, trace: "The " + kind + " of the numbers is " + result + ".",
		full: []string{"The " + kind + " is " + result + ".", "That gives " + result + " as the " + kind + "."},
	}, true
}
