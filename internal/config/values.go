package config

import (
	"errors"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Limit is an allowance: a whole number, or Unlimited.
type Limit int64

// Unlimited is written "unlimited".
const Unlimited Limit = -1

// Milli is a decimal number in thousandths: 1.5 is 1500.
type Milli int64

// Money is an amount in millionths of a dollar: 0.15 is 150000.
type Money int64

// Secret is text that never shows itself. Reveal is the one way to read it.
type Secret string

// The largest values, in whole numbers: far beyond sense, and low enough that the thousandths and
// millionths of what many calls come to can be added up in an int64.
const (
	largestLimit = 1_000_000_000_000
	largestMilli = 1_000_000
	largestMoney = 1_000_000
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

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String is enough to tell two keys apart: the last four characters, of a secret that is long enough to spare them.
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

// parseDecimal reads a number without sign or exponent, up to the largest, in units of 10^-places.
func parseDecimal(text string, places int, largest uint64) (int64, error) {
	whole, fraction, dotted := strings.Cut(text, ".")
	if whole == "" || dotted && fraction == "" || len(fraction) > places {
		return 0, errValue
	}
	digits := whole + fraction + strings.Repeat("0", places-len(fraction))
	n, err := strconv.ParseUint(digits, 10, 63) // takes no sign
	bound := largest
	for range places {
		bound *= 10
	}
	if err != nil || n > bound {
		return 0, errValue
	}
	return int64(n), nil
}

func formatDecimal(n int64, places int) string {
	digits := strconv.FormatInt(n, 10)
	if short := places + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	point := len(digits) - places
	return strings.TrimRight(strings.TrimRight(digits[:point]+"."+digits[point:], "0"), ".")
}

// parsePrefix reads a network, or an address as the network of it alone.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return addr.WithZone("").Prefix(addr.BitLen())
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err
}

// setText parses text into v, which is a scalar, a pointer to one, or a list of them separated by commas.
// It is how defaults, environment variables, flags and expanded text are read.
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

// wordsFor says what a value of the type looks like, in messages and in the reference.
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
