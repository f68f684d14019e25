package reconcile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/ledger/price"
)

// Limits of what is read. Exports come from vendors, but files go through many hands.
const (
	MaxLines  = 100_000   // after rows are added up
	maxRows   = 5_000_000 // of which the duplicates are found
	maxSheet  = 1 << 30   // bytes of a CSV file, unpacked
	maxJSON   = 64 << 20  // bytes of a JSON file, unpacked
	maxName   = 200
	maxOthers = 200
	maxKeys   = 1000
	maxFiles  = 400
)

var errTooMany = fmt.Errorf("the export has more than %d lines of day, model, tier and bucket, or too many names; compare a shorter time", MaxLines)

// errNoKeys refuses to choose keys of an export without them.
var errNoKeys = errors.New("this export does not divide by API key: compare it without choosing keys")

// Reader reads the files of a vendor, and adds them up.
type Reader struct {
	vendor Vendor
	keys   []string // those that count; empty: all
	parts  []*part
	seen   map[[16]byte]bool // rows that were read, to find duplicates
	rows   int
}

// part is what those files say that divide by the same things.
type part struct {
	Export
	at     map[Line]int // the places in Lines by what is not a figure
	other  map[string]int
	digits int // the most decimals of an amount
}

// NewReader returns a reader. keys are the vendor's names of API keys; if there are any, rows of other keys are left out.
func NewReader(v Vendor, keys []string) *Reader {
	return &Reader{vendor: v, keys: keys, seen: map[[16]byte]bool{}}
}

// Read reads one file, or one page of the vendor's API. Its form is recognised by its content.
func (r *Reader) Read(name string, src io.Reader) error {
	in, err := unpacked(src)
	if err == nil {
		if first, _ := in.Peek(1); len(first) == 1 && (first[0] == '{' || first[0] == '[') {
			err = r.readJSON(name, in)
		} else {
			err = r.readCSV(name, in)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", excerpt.Of(name, 200), err)
	}
	return nil
}

// unpacked returns the content of a file that may be packed by gzip, without a byte order mark and leading spaces.
func unpacked(src io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(src, 1<<16)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		plain, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(plain, 1<<16)
	}
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	return in, nil
}

// bounded reads at most a number of bytes, and fails if there are more.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the file is too large; compare a shorter time")
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Exports returns what was read.
func (r *Reader) Exports() ([]Export, error) {
	var out []Export
	for _, p := range r.parts {
		if len(p.Lines) == 0 && len(p.Others) == 0 && len(p.Duplicates) == 0 {
			continue
		}
		p.Unit = Money(math.Pow10(max(0, 9-p.digits)))
		slices.Sort(p.Buckets)
		slices.Sort(p.Keys)
		out = append(out, p.Export)
	}
	if len(out) == 0 {
		return nil, errors.New("the export has no usage: check the vendor, the days and the keys")
	}
	return out, nil
}

// part returns the part for a file that divides by tier and region or not.
func (r *Reader) part(file string, tiers, regions bool) *part {
	for _, p := range r.parts {
		if p.Tiers == tiers && p.Regions == regions {
			if !slices.Contains(p.Files, file) && len(p.Files) < maxFiles {
				p.Files = append(p.Files, file)
			}
			return p
		}
	}
	p := &part{Export: Export{Vendor: r.vendor, Tiers: tiers, Regions: regions, Files: []string{file}}, at: map[Line]int{}, other: map[string]int{}}
	r.parts = append(r.parts, p)
	return p
}

// wants reports whether rows of a key count, and notes the key.
func (r *Reader) wants(p *part, key string) bool {
	if key != "" && !slices.Contains(p.Keys, key) && len(p.Keys) < maxKeys {
		p.Keys = append(p.Keys, key)
	}
	return len(r.keys) == 0 || slices.Contains(r.keys, key)
}

// repeated reports whether a row with this identity was read before.
func (r *Reader) repeated(identity ...string) (bool, error) {
	if r.rows++; r.rows > maxRows {
		return false, errTooMany
	}
	sum := sha256.Sum256([]byte(strings.Join(identity, "\x00")))
	key := [16]byte(sum[:16])
	again := r.seen[key]
	r.seen[key] = true
	return again, nil
}

// item is what one row says.
type item struct {
	Line
	digits int
	again  bool // the row was there before
}

// add adds a row.
func (p *part) add(i item) error {
	l := i.Line
	if l.Count == 0 && l.Charged == 0 {
		return nil
	}
	if len(l.Model) > maxName || len(l.Tier) > maxName || len(l.Region) > maxName || len(l.Bucket) > maxName {
		return fmt.Errorf("row %d: a name of more than %d bytes", l.Row, maxName)
	}
	if len(p.Lines) >= MaxLines || len(p.Duplicates) >= MaxLines {
		return errTooMany
	}
	if i.Charged > 0 {
		p.digits = max(p.digits, i.digits)
	}
	if l.Bucket != "" && !slices.Contains(p.Buckets, l.Bucket) {
		p.Buckets = append(p.Buckets, l.Bucket)
	}
	if i.again {
		p.Duplicates = append(p.Duplicates, l)
		return nil
	}
	key := Line{Day: l.Day, Model: l.Model, Tier: l.Tier, Region: l.Region, Bucket: l.Bucket}
	at, ok := p.at[key]
	if !ok {
		p.at[key] = len(p.Lines)
		p.Lines = append(p.Lines, l)
		return nil
	}
	sum := &p.Lines[at]
	sum.Count, sum.Counted, sum.Cost, sum.Charged = sum.Count+l.Count, sum.Counted+l.Counted, sum.Cost+l.Cost, sum.Charged+l.Charged
	return nil
}

// leave adds an amount that is not compared.
func (p *part) leave(name string, cost price.Nano) {
	name = excerpt.Of(name, maxName)
	if _, ok := p.other[name]; !ok && len(p.Others) >= maxOthers-1 {
		name = "other"
	}
	at, ok := p.other[name]
	if !ok {
		at = len(p.Others)
		p.other[name] = at
		p.Others = append(p.Others, Other{Name: name})
	}
	p.Others[at].Rows, p.Others[at].Cost = p.Others[at].Rows+1, p.Others[at].Cost+Money(cost)
}

// knows says that the export tells buckets apart, even if no row has tokens of them.
func (p *part) knows(buckets ...string) {
	for _, b := range buckets {
		if !slices.Contains(p.Buckets, b) {
			p.Buckets = append(p.Buckets, b)
		}
	}
}

// readJSON reads one page or several: one after another, or as an array.
func (r *Reader) readJSON(name string, in io.Reader) error {
	raw, err := io.ReadAll(&bounded{in, maxJSON})
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for n := 0; ; n++ {
		var page json.RawMessage
		switch err := dec.Decode(&page); {
		case err == io.EOF && n > 0:
			return nil
		case err != nil:
			at := dec.InputOffset()
			if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
				at = bad.Offset
			}
			return fmt.Errorf("line %d: %w", 1+bytes.Count(raw[:min(int(at), len(raw))], []byte{'\n'}), err)
		}
		pages := []json.RawMessage{page}
		if page[0] == '[' {
			if err := json.Unmarshal(page, &pages); err != nil {
				return err
			}
		}
		for _, page := range pages {
			if err := pageForms[r.vendor](r, name, page); err != nil {
				return err
			}
		}
	}
}

// pageForms reads a page of a vendor's API.
var pageForms = map[Vendor]func(r *Reader, name string, page []byte) error{
	OpenAI: (*Reader).openaiPage, Anthropic: (*Reader).anthropicPage, AWS: (*Reader).costExplorerPage, OpenRouter: (*Reader).openrouterPage,
}

// sheet is one form of a CSV file.
type sheet struct {
	what string
	need []string // the columns by which it is known, any of several if they are divided by bars
	open func(r *Reader, name string, head map[string]int) *part
	row  func(r *Reader, p *part, row *record) error
}

// sheets has the forms of each vendor.
var sheets = map[Vendor][]sheet{
	OpenAI: {openaiUsageSheet, openaiCostSheet}, Anthropic: {anthropicUsageSheet, anthropicCostSheet}, AWS: {curSheet}, OpenRouter: {openrouterSheet},
}

// readCSV reads a file with a head.
func (r *Reader) readCSV(name string, in io.Reader) error {
	table := csv.NewReader(&bounded{in, maxSheet})
	table.ReuseRecord, table.LazyQuotes = true, true
	fields, err := table.Read()
	if err != nil {
		return fmt.Errorf("neither JSON nor a table with a head: %w", err)
	}
	head := map[string]int{}
	for i, field := range fields {
		head[snake(field)] = i
	}
	form, err := r.formOf(head)
	if err != nil {
		return err
	}
	p := form.open(r, name, head)
	for {
		fields, err := table.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err // says the line
		}
		line, _ := table.FieldPos(0)
		if err := form.row(r, p, &record{head, fields, line}); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// formOf returns the form of a file with these columns.
func (r *Reader) formOf(head map[string]int) (*sheet, error) {
	var known []string
	for i := range sheets[r.vendor] {
		form := &sheets[r.vendor][i]
		if !slices.ContainsFunc(form.need, func(column string) bool {
			return !slices.ContainsFunc(strings.Split(column, "|"), func(one string) bool { _, ok := head[one]; return ok })
		}) {
			return form, nil
		}
		known = append(known, form.what+" with the columns "+strings.Join(form.need, ", "))
	}
	return nil, fmt.Errorf("line 1: no export of %s that is known: %s; there are %s", r.vendor, strings.Join(known, "; or "), excerpt.Of(strings.Join(slices.Sorted(maps.Keys(head)), ", "), 300))
}

var words = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// snake returns the name of a column in one spelling: lineItem/UsageType and line_item_usage_type are the same.
func snake(name string) string {
	return strings.ToLower(strings.Join(words.FindAllString(name, -1), "_"))
}

// record is one row of a table.
type record struct {
	head   map[string]int
	fields []string
	line   int
}

// text returns the first of the columns that there is and that is not empty.
func (r *record) text(columns ...string) string {
	for _, c := range columns {
		if i, ok := r.head[c]; ok && i < len(r.fields) {
			if text := strings.TrimSpace(r.fields[i]); text != "" {
				return text
			}
		}
	}
	return ""
}

// count returns a whole number; an empty field is zero.
func (r *record) count(columns ...string) (int64, error) {
	text := strings.ReplaceAll(r.text(columns...), ",", "")
	if text == "" {
		return 0, nil
	}
	whole, fraction, _ := strings.Cut(text, ".") // some exports write 3.0
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0") != "" || n < 0 || n > maxCount {
		return 0, fmt.Errorf("%s is %q, not a whole number", columns[0], excerpt.Of(text, 40))
	}
	return n, nil
}

// maxCount bounds a count, so that sums of them stay numbers.
const maxCount = 1 << 50

// day returns the day in UTC that a moment or a day belongs to.
func (r *record) day(columns ...string) (string, error) { return dayOf(r.text(columns...)) }

// dayOf reads the forms in which vendors write days: dates, moments and Unix seconds.
func dayOf(text string) (string, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<33 {
		return time.Unix(n, 0).UTC().Format(time.DateOnly), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05", "1/2/2006", "2006/1/2"} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC().Format(time.DateOnly), nil
		}
	}
	return "", fmt.Errorf("%q is no day", excerpt.Of(text, 40))
}

var number = regexp.MustCompile(`^-?[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,2})?$`)

// amount returns the dollars that a decimal number says, divided by ten to the power of shift and rounded to the nano-dollar,
// and how many decimals it has.
func amount(text string, shift int) (n price.Nano, digits int, err error) {
	bad := fmt.Errorf("%q is no amount", excerpt.Of(text, 40))
	text = strings.TrimPrefix(strings.TrimSpace(text), "$")
	if len(text) > 60 || !number.MatchString(text) || strings.Trim(text, "-.eE+") == "" {
		return 0, 0, bad
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, 0, bad
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	power, _ := strconv.Atoi(exponent) // 0 if there is none
	value.Mul(value, new(big.Rat).SetFrac(big.NewInt(1_000_000_000), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(shift)), nil)))
	whole := nearest(value)
	if !whole.IsInt64() || whole.Int64() > int64(price.Most) || whole.Int64() < -int64(price.Most) {
		return 0, 0, bad
	}
	return price.Nano(whole.Int64()), max(0, len(fraction)-power+shift), nil
}

// nearest rounds half up.
func nearest(v *big.Rat) *big.Int {
	twice := new(big.Int).Mul(v.Num(), big.NewInt(2))
	twice.Add(twice, v.Denom())
	// Div rounds down for negative numbers, too.
	return twice.Div(twice, new(big.Int).Mul(v.Denom(), big.NewInt(2)))
}
