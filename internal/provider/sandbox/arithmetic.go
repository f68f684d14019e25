package sandbox

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/chat"
)

var (
	errZero     = errors.New("division by zero has no result")
	errTooLarge = errors.New("the result is too large to write down")
	errSyntax   = errors.New("that is no sum")
)

// spoken turns words into signs, in this order; ~ is the square root and # the remainder.
var spoken = []struct {
	pattern *regexp.Regexp
	sign    string
}{
	{regexp.MustCompile(`(?i)\bmultiply\s+(\S+)\s+(?:by|with|and)\s+([\d.]+)`), "$1 * $2"},
	{regexp.MustCompile(`(?i)\bdivide\s+(\S+)\s+by\s+([\d.]+)`), "$1 / $2"},
	{regexp.MustCompile(`(?i)\badd\s+(\S+)\s+(?:to|and)\s+([\d.]+)`), "$1 + $2"},
	{regexp.MustCompile(`(?i)\bsubtract\s+(\S+)\s+from\s+([\d.]+)`), "$2 - $1"},
	{regexp.MustCompile(`(?i)\s+plus\s+`), " + "},
	{regexp.MustCompile(`(?i)\s+minus\s+|−`), " - "},
	{regexp.MustCompile(`(?i)\s+(?:times|multiplied by)\s+|×`), " * "},
	{regexp.MustCompile(`(\d)\s*[xX]\s*(\d)`), "$1 * $2"},
	{regexp.MustCompile(`(?i)\s+divided by\s+|÷`), " / "},
	{regexp.MustCompile(`(?i)\s+(?:raised )?to the power of\s+|\*\*`), " ^ "},
	{regexp.MustCompile(`(?i)\s+squared\b`), " ^ 2"},
	{regexp.MustCompile(`(?i)(?:the )?square root of\s+|√`), "~"},
	{regexp.MustCompile(`(?i)\s+mod(?:ulo)?\s+`), " # "},
	{regexp.MustCompile(`(?i)\s*(?:%|\bpercent)\s+of\s+`), "% * "},
	{regexp.MustCompile(`(?i)\s+percent\b`), "%"},
	{regexp.MustCompile(`(\d),(\d{3})\b`), "$1$2"},
}

var (
	sumPattern = regexp.MustCompile(`[-+(~ ]*[\d.][\d\s.()+\-*/^%#~]*`)
	sumCue     = regexp.MustCompile(`(?i)what(?:'s|’s| is| are| does)|how much|calculat|comput|evaluat|solv|work out|equal|result|add|subtract|multipl|divid|=`)
	sumVerb    = regexp.MustCompile(`(?i)(?:\bis|'s|calculate|compute|evaluate)$`)
	likeAPhone = regexp.MustCompile(`^\d+(?:-\d+)+$`)
	thatNumber = regexp.MustCompile(`(?i)\b(?:that|it|this|the result|the answer)\b`)
)

func arithmetic(p *prompt) (answer, bool) {
	text := head(p.text)
	if n := p.lastNumber(); n != "" && sumCue.MatchString(text) {
		text = thatNumber.ReplaceAllString(text, n)
	}
	sum := expression(text)
	if sum == "" {
		return answer{}, false
	}
	shown := strings.NewReplacer("~", "√", "#", "mod").Replace(sum)
	value, err := evaluate(sum)
	if err != nil {
		text := err.Error()
		return answer{value: strings.ToUpper(text[:1]) + text[1:] + ".", trace: "The expression " + shown + " cannot be worked out."}, true
	}
	result := decimal(value)
	return answer{
		value: result, trace: "The expression is " + shown + "; worked out exactly it is " + result + ".",
		full: []string{shown + " = " + result + ".", "The result of " + shown + " is " + result + ".", shown + " comes to " + result + "."},
	}, true
}

// lastNumber is the number that "that" and "it" mean: the last one of the reply before.
func (p *prompt) lastNumber() string {
	if n := len(p.said); n > 0 && p.said[n-1].role == chat.RoleAssistant {
		if all := numbers(head(p.said[n-1].text), true); len(all) > 0 {
			return all[len(all)-1]
		}
	}
	return ""
}

// expression is the longest sum in a text; empty where there is none, or where it may as well be a
// date or a telephone number.
func expression(text string) string {
	cue := sumCue.MatchString(text)
	for _, s := range spoken {
		text = s.pattern.ReplaceAllString(text, s.sign)
	}
	best, lead := "", ""
	for _, at := range sumPattern.FindAllStringIndex(mask(text, datePattern), -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		after, _ := utf8.DecodeRuneInString(text[at[1]:])
		if unicode.IsLetter(before) && text[at[0]] != ' ' || unicode.IsLetter(after) && text[at[1]-1] != ' ' {
			continue // part of a word, such as 1e3
		}
		found := strings.TrimRight(strings.Trim(text[at[0]:at[1]], "+ \n"), " .(+-*/^#~")
		for strings.Count(found, ")") > strings.Count(found, "(") && strings.HasSuffix(found, ")") {
			found = strings.TrimRight(strings.TrimSuffix(found, ")"), " .")
		}
		if len(found) > len(best) && strings.ContainsAny(strings.Trim(found, "-(% "), "+-*/^#%~") {
			best, lead = found, strings.TrimSpace(text[:at[0]])
		}
	}
	alone := lead == "" && len(words(text)) <= len(numberPattern.FindAllString(text, -1))+2
	phone := likeAPhone.MatchString(best) && (strings.Count(best, "-") > 1 || !alone && !sumVerb.MatchString(lead))
	if _, err := evaluate(best); err == errSyntax || phone || !alone && !cue {
		return ""
	}
	return best
}

// evaluate works an expression out in fractions, so that nothing drifts or overflows.
func evaluate(text string) (*big.Rat, error) {
	e := &evaluator{rest: strings.Join(strings.Fields(text), "")}
	value := e.sum()
	if e.rest != "" {
		e.fail(errSyntax)
	}
	return value, e.err
}

type evaluator struct {
	rest string
	err  error
}

// fail keeps the first error and leaves nothing to read, so that every loop ends.
func (e *evaluator) fail(err error) *big.Rat {
	if e.err == nil {
		e.err = err
	}
	e.rest = ""
	return new(big.Rat)
}

func (e *evaluator) accept(signs string) (sign byte) {
	if e.rest != "" && strings.IndexByte(signs, e.rest[0]) >= 0 {
		sign, e.rest = e.rest[0], e.rest[1:]
	}
	return sign
}

func (e *evaluator) sum() *big.Rat {
	left := e.product()
	for sign := e.accept("+-"); sign != 0; sign = e.accept("+-") {
		right := e.product()
		if sign == '-' {
			right.Neg(right)
		}
		left.Add(left, right)
	}
	return left
}

func (e *evaluator) product() *big.Rat {
	left := e.signed()
	for sign := e.accept("*/#%"); sign != 0; sign = e.accept("*/#%") {
		right := e.signed()
		switch {
		case sign == '*':
			left.Mul(left, right)
		case right.Sign() == 0:
			return e.fail(errZero)
		case sign == '/':
			left.Quo(left, right)
		default:
			times := new(big.Rat).Quo(left, right)
			times.SetInt(new(big.Int).Quo(times.Num(), times.Denom()))
			left.Sub(left, times.Mul(times, right))
		}
	}
	return left
}

func (e *evaluator) signed() *big.Rat {
	switch e.accept("-~") {
	case '-':
		value := e.signed()
		return value.Neg(value)
	case '~':
		f, _ := e.signed().Float64()
		if value := new(big.Rat).SetFloat64(math.Sqrt(f)); value != nil {
			return value
		}
		return e.fail(errSyntax)
	}
	base := e.atom()
	if e.accept("^") == 0 {
		return base
	}
	return e.power(base, e.signed())
}

func (e *evaluator) atom() (value *big.Rat) {
	if e.accept("(") != 0 {
		if value = e.sum(); e.accept(")") == 0 {
			return e.fail(errSyntax)
		}
	} else {
		digits := e.rest[:len(e.rest)-len(strings.TrimLeft(e.rest, "0123456789."))]
		var ok bool
		if value, ok = new(big.Rat).SetString(digits); !ok {
			return e.fail(errSyntax)
		}
		e.rest = e.rest[len(digits):]
	}
	// A % before a number or a bracket is the remainder; any other means hundredths.
	if rest, ok := strings.CutPrefix(e.rest, "%"); ok && (rest == "" || !strings.ContainsAny(rest[:1], "0123456789.(~")) {
		e.rest = rest
		value.Quo(value, big.NewRat(100, 1))
	}
	return value
}

func (e *evaluator) power(base, exponent *big.Rat) *big.Rat {
	n := new(big.Int).Abs(exponent.Num())
	size := max(base.Num().BitLen(), base.Denom().BitLen())
	switch {
	case !exponent.IsInt():
		return e.fail(errSyntax)
	case !n.IsInt64() || n.Int64() > 1<<14 || size*int(n.Int64()) > 1<<14:
		return e.fail(errTooLarge)
	case exponent.Sign() < 0 && base.Sign() == 0:
		return e.fail(errZero)
	case exponent.Sign() < 0:
		base.Inv(base)
	}
	return base.SetFrac(new(big.Int).Exp(base.Num(), n, nil), new(big.Int).Exp(base.Denom(), n, nil))
}

// decimal writes a fraction with at most ten decimals.
func decimal(value *big.Rat) string {
	if value.IsInt() {
		return value.Num().String()
	}
	return strings.TrimRight(strings.TrimRight(value.FloatString(10), "0"), ".")
}

// rational reads a plain numeral, with commas between thousands or not.
func rational(text string) (*big.Rat, bool) {
	text = strings.ReplaceAll(text, ",", "")
	if strings.Trim(text, "0123456789.") != "" && strings.Trim(text[1:], "0123456789.") != "" || len(text) > 1000 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
