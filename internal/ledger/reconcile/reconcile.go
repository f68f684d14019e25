// Package reconcile compares what was settled here with what a vendor says that it served and charged.
//
// Read reads the vendor's own exports into an Export. Ours adds up the settlements in the same way: by day in UTC, model,
// service tier, region and bucket. Compare gives every difference a class, and proposes the prices that follow from the
// vendor's charges. The package reads no database and no network; see reconcile/fetch for the vendors' APIs.
package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/price"
)

// Vendor is whose exports are read.
type Vendor string

const (
	OpenAI     Vendor = "openai"
	Anthropic  Vendor = "anthropic"
	AWS        Vendor = "aws"
	OpenRouter Vendor = "openrouter"
)

// Vendors returns all vendors whose exports can be read.
func Vendors() []Vendor { return []Vendor{OpenAI, Anthropic, AWS, OpenRouter} }

// Kind returns the kind of the providers in the configuration whose calls the vendor charges for.
func (v Vendor) Kind() string {
	if v == AWS {
		return "bedrock"
	}
	return string(v)
}

// Money is an amount that is a decimal number of dollars in JSON.
type Money price.Nano

// MarshalJSON writes dollars.
func (m Money) MarshalJSON() ([]byte, error) { return price.Nano(m).AppendJSON(nil), nil }

// UnmarshalJSON reads dollars.
func (m *Money) UnmarshalJSON(raw []byte) error {
	n, _, err := amount(string(raw), 0)
	*m = Money(n)
	return err
}

// Line is what an export says about one bucket of a model on one day. Rows that differ in nothing else are added up.
type Line struct {
	Day    string `json:"day"`              // in UTC
	Model  string `json:"model,omitempty"`  // as the vendor writes it; empty for fees that the vendor does not divide by model
	Tier   string `json:"tier,omitempty"`   // empty: the list price
	Region string `json:"region,omitempty"` // empty: the list price
	// Bucket is the name of a price.Bucket or of a use, such as web_search. It is empty for an amount that the vendor does
	// not divide.
	Bucket string `json:"bucket,omitempty"`

	Count   int64 `json:"count,omitempty"`   // tokens or calls
	Counted int   `json:"counted,omitempty"` // how many rows had a count
	Cost    Money `json:"cost,omitempty"`
	Charged int   `json:"charged,omitempty"` // how many rows had an amount
	Row     int   `json:"row,omitempty"`     // the first row, or the first result of a JSON file
}

// Other is something that the vendor charges for and that no call of ours is compared with.
type Other struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	Cost Money  `json:"cost"`
}

// Export is what one or several files of a vendor say.
type Export struct {
	Vendor Vendor   `json:"vendor"`
	Files  []string `json:"files"`
	// Tiers and Regions say whether the export divides by them.
	Tiers   bool `json:"tiers"`
	Regions bool `json:"regions"`
	// Buckets are those that the export tells apart. Others are part of one of these.
	Buckets    []string `json:"buckets"`
	Lines      []Line   `json:"lines"`
	Duplicates []Line   `json:"duplicates,omitempty"` // rows that were there before, and are not in Lines
	Others     []Other  `json:"others,omitempty"`
	Keys       []string `json:"keys,omitempty"` // the vendor's names of the API keys
	Unit       Money    `json:"unit"`           // the smallest amount that the export tells apart
}

// Check refuses an export that no reader of this package returns.
func (e *Export) Check() error {
	if !slices.Contains(Vendors(), e.Vendor) {
		return fmt.Errorf("there is no vendor %q; there are %s", e.Vendor, listOf(Vendors()))
	}
	if len(e.Lines) > MaxLines || len(e.Duplicates) > MaxLines || len(e.Others) > maxOthers || len(e.Keys) > maxKeys || len(e.Files) > maxFiles {
		return errTooMany
	}
	for _, list := range [][]Line{e.Lines, e.Duplicates} {
		for i := range list {
			if l := &list[i]; len(l.Model)+len(l.Tier)+len(l.Region)+len(l.Bucket) > 4*maxName || !isDay(l.Day) {
				return fmt.Errorf("row %d: no day, or a name of more than %d bytes", l.Row, maxName)
			}
		}
	}
	return nil
}

// Class is what a difference is.
type Class string

const (
	MissingHere  Class = "missing_here"  // the vendor charges for something that was not settled here
	MissingThere Class = "missing_there" // something was settled here that the vendor does not charge for
	Duplicate    Class = "duplicate"     // something is there several times
	StalePrice   Class = "stale_price"   // the counts agree; the price here is missing or not the one that was charged
	UnknownTier  Class = "unknown_tier"  // the counts agree; the service tier or the region is another one, or has no price here
	TokensDiffer Class = "tokens_differ" // some counts are higher here, others there
	Rounding     Class = "rounding"      // the counts agree, and the amounts up to their last digit
)

// Classes returns all classes, the gravest first.
func Classes() []Class {
	return []Class{MissingHere, MissingThere, Duplicate, TokensDiffer, UnknownTier, StalePrice, Rounding}
}

// Figure is one bucket of a difference.
type Figure struct {
	Bucket string `json:"bucket"` // empty: all of them
	Tier   string `json:"tier,omitempty"`
	// Ours and Theirs are tokens or calls; nil: not known.
	Ours       *int64 `json:"ours"`
	Theirs     *int64 `json:"theirs"`
	OurCost    *Money `json:"our_cost"`
	TheirCost  *Money `json:"their_cost"`
	OurRate    *Money `json:"our_rate,omitempty"`    // dollars per million tokens, in effect
	TheirRate  *Money `json:"their_rate,omitempty"`  // the same, as charged
	OtherRates bool   `json:"other_rates,omitempty"` // there are several rates, of long and short prompts for example
}

// Finding is one difference.
type Finding struct {
	Class   Class    `json:"class"`
	Day     string   `json:"day"`
	Model   string   `json:"model"`        // as the vendor writes it, or as we do if only we have it
	ID      string   `json:"id,omitempty"` // in the catalog
	Tier    string   `json:"tier,omitempty"`
	Region  string   `json:"region,omitempty"`
	Row     int      `json:"row,omitempty"` // of the export
	Amount  Money    `json:"amount"`        // what the vendor charges beyond what was settled here
	Note    string   `json:"note,omitempty"`
	Figures []Figure `json:"figures"`
}

// Sum is what the differences of a class add up to.
type Sum struct {
	Class    Class `json:"class"`
	Findings int   `json:"findings"`
	Amount   Money `json:"amount"`
}

// Entry is an entry of a price book, which JSON has as operators write it.
type Entry struct{ *price.Entry }

// UnmarshalJSON reads an entry as operators write it.
func (e *Entry) UnmarshalJSON(raw []byte) error {
	e.Entry = &price.Entry{}
	return e.Entry.UnmarshalJSON(raw)
}

// Proposal is a price that follows from what the vendor charged.
type Proposal struct {
	Model    string `json:"model"` // in the catalog
	Upstream string `json:"upstream"`
	Why      string `json:"why"`
	Days     int    `json:"days"`
	Amount   Money  `json:"amount"` // what the vendor charged beyond the price here
	Entry    Entry  `json:"entry"`
	YAML     string `json:"yaml"`
}

// Report is the result of a comparison.
type Report struct {
	ID        string     `json:"id,omitempty"`
	At        time.Time  `json:"at,omitzero"`
	Actor     string     `json:"actor,omitempty"`
	Vendor    Vendor     `json:"vendor"`
	Providers []string   `json:"providers"`
	Files     []string   `json:"files"`
	From      string     `json:"from"` // the first day, and the last one, both compared
	To        string     `json:"to"`
	Compared  int        `json:"compared"` // how many pairs of day and model, by tier and region where the export has them
	Matched   int        `json:"matched"`  // those of them without a difference
	Ours      Money      `json:"ours"`
	Theirs    Money      `json:"theirs"`
	Unpriced  int64      `json:"unpriced"` // calls here that have no cost
	Sums      []Sum      `json:"sums"`
	Findings  []Finding  `json:"findings"`
	LeftOff   int        `json:"left_off"` // findings that are counted but not listed
	Proposals []Proposal `json:"proposals"`
	Others    []Other    `json:"others"`
	Notes     []string   `json:"notes"`
}

// InOrder reports whether there is no difference but in the last digit.
func (r *Report) InOrder() bool {
	return !slices.ContainsFunc(r.Sums, func(s Sum) bool { return s.Class != Rounding })
}

// Trim keeps the most findings with the highest amounts, those that are not about rounding first.
func (r *Report) Trim(most int) {
	if len(r.Findings) <= most {
		return
	}
	weight := func(f *Finding) int64 {
		if f.Class == Rounding {
			return -1
		}
		return int64(max(f.Amount, -f.Amount))
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(weight(&b), weight(&a)) })
	r.LeftOff += len(r.Findings) - most
	r.Findings = r.Findings[:most:most]
	sortFindings(r.Findings)
}

func sortFindings(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Day, b.Day), strings.Compare(a.Model, b.Model), strings.Compare(a.Tier, b.Tier), strings.Compare(a.Region, b.Region), strings.Compare(string(a.Class), string(b.Class)))
	})
}

func listOf[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}
