package jsonscan

// Number reads the JSON number that starts at b[i]. It returns the index after the number, how many
// digits it has, those of the exponent included, and whether it has an exponent. A user that bounds
// the digits needs to check the range of numbers with an exponent only: 64 digits without one
// always fit a float64.
//
// If the number is not valid, end is the index where a digit is missing, or i for LeadingZero.
func Number(b []byte, i int) (end, digits int, exponent bool, p Problem) {
	from := i
	if is(b, i, '-') {
		i++
	}
	// The whole part: 0, or digits that do not begin with 0.
	digits = countDigits(b, i)
	i += digits
	switch {
	case digits == 0:
		return i, 0, false, NoDigit
	case digits > 1 && b[i-digits] == '0':
		return from, 0, false, LeadingZero
	}
	// The fraction.
	if is(b, i, '.') {
		i++
		n := countDigits(b, i)
		if n == 0 {
			return i, 0, false, NoFractionDigit
		}
		i += n
		digits += n
	}
	// The exponent.
	if !is(b, i, 'e') && !is(b, i, 'E') {
		return i, digits, false, OK
	}
	i++
	if is(b, i, '+') || is(b, i, '-') {
		i++
	}
	n := countDigits(b, i)
	if n == 0 {
		return i, 0, true, NoExponentDigit
	}
	return i + n, digits + n, true, OK
}

// is reports whether b[i] is c. It reports false at the end of b.
func is(b []byte, i int, c byte) bool { return i < len(b) && b[i] == c }

// countDigits returns how many digits there are at b[i].
func countDigits(b []byte, i int) int {
	n := 0
	for i+n < len(b) && '0' <= b[i+n] && b[i+n] <= '9' {
		n++
	}
	return n
}

// Uint skips white space and reads a whole number of at most most digits, such as an index or a
// count. most must be at most 18, so that the value fits an int. A number with a sign, a fraction,
// an exponent or more digits is refused, whatever its value.
func (c *Cursor) Uint(most int) (int, bool) {
	c.Next()
	from, v := c.Pos, 0
	for c.Pos < len(c.Body) && c.Pos-from < most && '0' <= c.Body[c.Pos] && c.Body[c.Pos] <= '9' {
		v = v*10 + int(c.Body[c.Pos]-'0')
		c.Pos++
	}
	n := c.Pos - from
	// A byte of a number that was not read: the number has more digits than most, or is not whole.
	if n == 0 || n > 1 && c.Body[from] == '0' || c.Pos < len(c.Body) && isNumeric(c.Body[c.Pos]) {
		return 0, false
	}
	return v, true
}

// isNumeric reports whether ch can be part of a number.
func isNumeric(ch byte) bool {
	return '0' <= ch && ch <= '9' || ch == '.' || ch == 'e' || ch == 'E' || ch == '+' || ch == '-'
}
