package price

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Nano is an amount in nano-dollars. An int64 holds nine billion dollars.
type Nano int64

// Most is the highest amount of one call: nearly nine thousand dollars short of nine million, so that a thousand such calls
// still have a sum.
const Most Nano = math.MaxInt64 >> 10

// nanos is how many nano-dollars a dollar has.
const nanos = 1_000_000_000

var errAmount = errors.New("must be an amount in dollars from 0 to 1000000 with at most nine decimals")

// Parse returns the amount that a decimal number of dollars says, exactly.
func Parse(text string) (Nano, error) {
	n, err := decimal(text, 9)
	if err != nil || n > 1_000_000*nanos {
		return 0, errAmount
	}
	return Nano(n), nil
}

// String returns the amount in dollars, with all digits that it has and at least two decimals: 0.000075, 12.50.
func (n Nano) String() string {
	sign, u := "", uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	rest := strconv.FormatUint(u%nanos, 10)
	rest = strings.TrimRight(strings.Repeat("0", 9-len(rest))+rest, "0")
	for len(rest) < 2 {
		rest += "0"
	}
	return sign + strconv.FormatUint(u/nanos, 10) + "." + rest
}

// Dollars returns an amount for people: in cents, with the sign of the currency, or exactly if it is less than a cent.
func Dollars(n Nano) string {
	const cent = nanos / 100
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	if n >= cent {
		n = (n + cent/2) / cent * cent
	}
	return sign + "$" + n.String()
}

// AppendJSON appends the amount as a JSON number of dollars, without needless digits: 0.000075, 12.5, 3.
func (n Nano) AppendJSON(b []byte) []byte {
	u := uint64(n)
	if n < 0 {
		b, u = append(b, '-'), -u
	}
	b = strconv.AppendUint(b, u/nanos, 10)
	rest := u % nanos
	if rest == 0 {
		return b
	}
	from := len(b)
	b = strconv.AppendUint(b, rest+nanos, 10) // a one before all nine digits, which becomes the point
	b[from] = '.'
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// decimal parses a number without a sign or an exponent of its own, in units of 10^-places. Exponents are taken, since other
// people's lists write 7.5e-08.
func decimal(text string, places int) (int64, error) {
	mantissa, exponent := text, 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[at+1:]); err != nil || exponent < -30 || exponent > 30 {
			return 0, errAmount
		}
		mantissa = text[:at]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	shift := exponent - len(fraction) + places // digits times 10^shift
	if digits == "" || len(digits) > 40 || strings.Trim(digits, "0123456789") != "" {
		return 0, errAmount
	}
	for ; shift < 0; shift++ {
		last := len(digits) - 1
		if last < 0 {
			return 0, nil
		}
		if digits[last] != '0' {
			return 0, errAmount // more decimals than there are places
		}
		digits = digits[:last]
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return 0, nil
	}
	if len(digits)+shift > 18 {
		return 0, errAmount
	}
	return strconv.ParseInt(digits+strings.Repeat("0", shift), 10, 64)
}
