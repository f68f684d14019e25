package config

import (
	"errors"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sluice/internal/prompt/allowance"
)

// Limit is a whole number or Unlimited.
type Limit int64

// Unlimited is written "unlimited" in the file.
const Unlimited Limit = -1

// Milli is a decimal number in thousandths: 1.5 is 1500. Integers keep sums exact.
type Milli int64

// Money is an amount in millionths of a dollar: 0.15 is 150000.
type Money int64

// Dollars is an amount in nano-dollars, or a price of a million tokens: 0.15 is 150000000.
type Dollars int64

// Factor is what prices are multiplied with, in millionths: 0.5 is 500000.
type Factor int64

// Factors maps names to factors. In a variable it is a list of name=factor.
type Factors map[string]Factor

// Amounts maps names to amounts.
type Amounts map[string]Dollars

// Names maps names to names. In a variable or flag it is a list of name=name.
type Names map[string]string

// Allowed is a list of names, or the word all; see package allowance.
type Allowed []string

// Secret is text that never prints itself, in fmt, JSON or logs. Reveal is the only way to
// read it.
type Secret string

// The largest values, in whole numbers: far beyond sense, and low enough that the thousandths and
// millionths of what many calls come to can be added up in an int64.
const (
	// The largest values, as whole numbers. They are far beyond any sensible setting, and
	// small enough that sums of thousandths and millionths over many calls fit in an int64.
	largestLimit = 1_000_000_000_000
	largestMilli = 1_000_000
	largestMoney = 1_000_000
	largestTimes = 100
)

var errValue = errors.New("not a value of this type")

func (l *Limit) UnmarshalText(text []byte) error {
	if string(text) == "unlimited" {
		*l = Unlimited
		return nil
	}
	n, err := parseDecimal(string(text), 0, largestLimit)
	*l = Limit(n)
	return err
}

func (l Limit) String() string {
	if l == Unlimited {
		return "unlimited"
	}
	return strconv.FormatInt(int64(l), 10)
}

func (a *Allowed) UnmarshalText(text []byte) error {
	if string(text) != allowance.All {
		return errValue
	}
	*a = Allowed{allowance.All}
	return nil
}

func (d *Dollars) UnmarshalText(text []byte) error {
	n, err := parseDecimal(string(text), 9, largestMoney)
	*d = Dollars(n)
	return err
}

func (d Dollars) String() string { return formatDecimal(int64(d), 9) }

func (f *Factor) UnmarshalText(text []byte) error {
	n, err := parseDecimal(string(text), 6, largestTimes)
	*f = Factor(n)
	if n == 0 {
		return errValue
	}
	return err
}

func (f Factor) String() string { return formatDecimal(int64(f), 6) }

func (f *Factors) UnmarshalText(text []byte) error {
	var names Names
	if err := names.UnmarshalText(text); err != nil {
		return err
	}
	*f = Factors{}
	for name, value := range names {
		var factor Factor
		if err := factor.UnmarshalText([]byte(value)); err != nil {
			return err
		}
		(*f)[name] = factor
	}
	return nil
}

func (n *Names) UnmarshalText(text []byte) error {
	*n = Names{}
	for item := range strings.SplitSeq(string(text), ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			return errValue
		}
		(*n)[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return nil
}

func (m *Milli) UnmarshalText(text []byte) error {
	n, err := parseDecimal(string(text), 3, largestMilli)
	*m = Milli(n)
	return err
}

func (m Milli) String() string { return formatDecimal(int64(m), 3) }

func (m *Money) UnmarshalText(text []byte) error {
	n, err := parseDecimal(string(text), 6, largestMoney)
	*m = Money(n)
	return err
}

func (m Money) String() string { return formatDecimal(int64(m), 6) }

// Reveal returns the secret itself. Do not log it.
func (s Secret) Reveal() string { return string(s) }

// String returns enough to tell two keys apart: the last four characters, if the secret is
// long enough.
func (s Secret) String() string {
	switch {
	case s == "":
		return ""
	case len(s) < 8:
		return "…"
	}
	return "…" + string(s[len(s)-4:])
}

func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText keeps the secret out of JSON and structured logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// parseDecimal parses a number without sign or exponent, up to largest, in units of
// 10^-places.
func parseDecimal(text string, places int, largest uint64) (int64, error) {
	whole, fraction, dotted := strings.Cut(text, ".")
	if whole == "" || dotted && fraction == "" || len(fraction) > places {
		return 0, errValue
	}
	digits := whole + fraction + strings.Repeat("0", places-len(fraction))
	n, err := strconv.ParseUint(digits, 10, 63) // accepts no sign
	bound := largest
	for range places {
		bound *= 10
	}
	if err != nil || n > bound {
		return 0, errValue
	}
	return int64(n), nil
}

// formatDecimal is the inverse of parseDecimal. It writes no trailing zeros.
func formatDecimal(n int64, places int) string {
	digits := strconv.FormatInt(n, 10)
	if short := places + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	point := len(digits) - places
	return strings.TrimRight(strings.TrimRight(digits[:point]+"."+digits[point:], "0"), ".")
}

// parsePrefix parses a network. A single address is the network that contains only it.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return addr.WithZone("").Prefix(addr.BitLen())
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err
}

// setText parses text into v, which is a scalar, a pointer to one, or a list of them separated
// by commas. Defaults, environment variables, flags and expanded text are read with it.
func setText(v reflect.Value, text string) error {
	var err error
	switch dst := v.Addr().Interface().(type) {
	case *string:
		*dst = text
	case *Secret:
		*dst = Secret(text)
	case *bool:
		if text != "true" && text != "false" {
			return errValue
		}
		*dst = text == "true"
	case *int:
		*dst, err = strconv.Atoi(text)
	case *time.Duration:
		*dst, err = time.ParseDuration(text)
		if *dst < 0 {
			err = errValue
		}
	case *netip.Prefix:
		*dst, err = parsePrefix(text)
	case interface{ UnmarshalText([]byte) error }:
		err = dst.UnmarshalText([]byte(text))
	default:
		return setComposite(v, text)
	}
	return err
}

// setComposite is setText for pointers and lists.
func setComposite(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		err := setText(fresh.Elem(), text)
		v.Set(fresh)
		return err
	}
	list := reflect.MakeSlice(v.Type(), 0, 1)
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		fresh := reflect.New(v.Type().Elem()).Elem()
		if err := setText(fresh, item); err != nil {
			return err
		}
		list = reflect.Append(list, fresh)
	}
	v.Set(list)
	return nil
}

// wordsFor describes the values of a type, for messages and the reference.
func wordsFor(t reflect.Type) string {
	switch reflect.Zero(t).Interface().(type) {
	case string, Secret:
		return "text"
	case bool:
		return "true or false"
	case int:
		return "a whole number"
	case time.Duration:
		return "a duration such as 30s"
	case netip.Prefix:
		return "a network such as 10.0.0.0/8 or an address"
	case Limit:
		return `a whole number from 0, or "unlimited"`
	case Milli:
		return "a decimal number from 0 to 1000000 with at most 3 places"
	case Money:
		return "an amount in dollars such as 0.25"
	case Dollars:
		return "an amount in dollars from 0 to 1000000 with at most nine decimals"
	case Factor:
		return "a factor above 0 and at most 100 with at most six decimals"
	case Factors:
		return "a mapping of names to factors"
	case Amounts:
		return "a mapping of names to dollars"
	case Allowed:
		return "`all`, or a list of names"
	case Names:
		return "a mapping of names"
	case []string:
		return "a list of text"
	case []netip.Prefix:
		return "a list of networks or addresses"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wordsFor(t.Elem())
	case reflect.Slice:
		return "a list"
	}
	return "a mapping"
}
