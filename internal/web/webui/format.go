package webui

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"sluice/internal/account/signin"
)

// Number formats 1234567 as 1,234,567.
func Number(n int64) string { return humanize.Comma(n) }

// Short formats 1234567 as 1.2M. Numbers below 10,000 are written in full.
func Short(n int64) string {
	switch {
	case n >= 1_000_000_000:
		return trimmed(float64(n)/1e9) + "B"
	case n >= 1_000_000:
		return trimmed(float64(n)/1e6) + "M"
	case n >= 10_000:
		return trimmed(float64(n)/1e3) + "K"
	}
	return Number(n)
}

// Count formats a number of requests: in full below 100,000, so that figures of one page agree.
func Count(n int64) string {
	if n < 100_000 {
		return Number(n)
	}
	return Short(n)
}

// trimmed formats v with one decimal, or none if it is zero.
func trimmed(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// Thousandths formats 1500 as 1.5.
func Thousandths(n int64) string {
	text := strconv.FormatFloat(float64(n)/1000, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Dollars formats nano-dollars, exactly: with cents, and with as many further decimals as there are.
func Dollars[N ~int | ~int64](amount N) string {
	nano := int64(amount)
	sign := ""
	if nano < 0 {
		sign, nano = "-", -nano
	}
	decimals := fmt.Sprintf("%09d", nano%1_000_000_000)
	for len(decimals) > 2 && decimals[len(decimals)-1] == '0' {
		decimals = decimals[:len(decimals)-1]
	}
	return sign + "$" + Number(nano/1_000_000_000) + "." + decimals
}

// Total formats an amount of nano-dollars among others: rounded to cents, or to two digits if it is smaller, so that amounts
// below each other look the same. Where it matters, the page has the exact amount as a title.
func Total[N ~int | ~int64](amount N) string {
	nano := int64(amount)
	if nano < 0 {
		return "-" + Total(-nano)
	}
	unit := int64(10_000_000)
	for unit > 1 && nano < 10*unit {
		unit /= 10
	}
	return Dollars((nano + unit/2) / unit * unit)
}

// nanoOf reads an exact number of dollars.
func nanoOf(n json.Number) (nano int64) {
	whole, rest, _ := strings.Cut(strings.TrimPrefix(n.String(), "-"), ".")
	nano, _ = strconv.ParseInt(whole+(rest + "000000000")[:9], 10, 64) // our own text
	if strings.HasPrefix(n.String(), "-") {
		return -nano
	}
	return nano
}

// Amount formats an exact number of dollars as Total does.
func Amount(n json.Number) string { return Total(nanoOf(n)) }

// Cents formats an amount in cents as Dollars does.
func Cents(cents int64) string { return Dollars(cents * 10_000_000) }

// Contexts formats the length of a context in tokens as people name it: both 128000 and 131072 are 128K.
func Contexts(tokens int64) string {
	const binary = 1024
	switch {
	case tokens%1000 == 0 || tokens%binary != 0:
	case tokens >= binary*binary:
		return trimmed(float64(tokens)/(binary*binary)) + "M"
	default:
		return Number(tokens/binary) + "K"
	}
	if tokens >= 1000 && tokens < 10_000 {
		return trimmed(float64(tokens)/1000) + "K"
	}
	return Short(tokens)
}

// DayMonth formats a day of which the year is clear, in UTC.
func DayMonth(at time.Time) string { return at.UTC().Format("2 Jan") }

// Month formats a month as all pages do, in UTC.
func Month(at time.Time) string { return at.UTC().Format("January 2006") }

// Date formats a day as all pages do, in UTC. Where a page can, it uses the template Day, which shows the reader's time zone.
func Date(at time.Time) string { return at.UTC().Format("2 Jan 2006") }

// DateTime formats a moment as all pages do, in UTC; see the template Time.
func DateTime(at time.Time) string { return at.UTC().Format("2 Jan 2006 15:04 UTC") }

// Millis formats a duration in milliseconds with a suitable unit.
func Millis(ms int64) string {
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + " ms"
	case ms < 60_000:
		return trimmed(float64(ms)/1000) + " s"
	}
	return trimmed(float64(ms)/60_000) + " min"
}

// Duration formats a duration as Millis does, and one below ten milliseconds with a decimal, so that its parts differ.
func Duration(d time.Duration) string {
	if d > 0 && d < 10*time.Millisecond {
		return strconv.FormatFloat(max(0.1, float64(d)/float64(time.Millisecond)), 'f', 1, 64) + " ms"
	}
	return Millis(d.Milliseconds())
}

// Ago formats how long ago at was. After 45 days it is a date.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	d := now.Sub(at)
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return Plural(int(d/time.Minute), "minute") + " ago"
	case d < 24*time.Hour:
		return Plural(int(d/time.Hour), "hour") + " ago"
	case d < 45*24*time.Hour:
		return Plural(int(d/(24*time.Hour)), "day") + " ago"
	}
	return Date(at)
}

// Plural returns a number with its noun, such as "2 days".
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Number(int64(n)) + " " + noun
}

// Browser returns a readable name for a user agent, such as "Firefox on Linux".
func Browser(agent string) string { return signin.Browser(agent) }
