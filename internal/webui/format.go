package webui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Number writes 1234567 as 1,234,567.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var b strings.Builder
	for i, c := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}

// Short writes 1234567 as 1.2M.
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

func trimmed(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// Thousandths writes 1500 as 1.5.
func Thousandths(n int64) string {
	text := strconv.FormatFloat(float64(n)/1000, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Dollars writes micro-dollars with as many decimals as tell something.
func Dollars(micro int64) string {
	switch {
	case micro == 0:
		return "$0"
	case micro < 10_000: // below a cent
		return "$" + strings.TrimRight(fmt.Sprintf("%.6f", float64(micro)/1e6), "0")
	}
	return "$" + Number(micro/1_000_000) + fmt.Sprintf(".%02d", micro%1_000_000/10_000)
}

// Cents writes an amount of money in cents.
func Cents(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	if cents%100 == 0 {
		return sign + "$" + Number(cents/100)
	}
	return sign + "$" + Number(cents/100) + fmt.Sprintf(".%02d", cents%100)
}

// Millis writes a duration of so many milliseconds.
func Millis(ms int64) string {
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + " ms"
	case ms < 60_000:
		return trimmed(float64(ms)/1000) + " s"
	}
	return trimmed(float64(ms)/60_000) + " min"
}

// Ago writes how long ago something was.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	d := now.Sub(at)
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return plural(int(d/time.Minute), "minute") + " ago"
	case d < 24*time.Hour:
		return plural(int(d/time.Hour), "hour") + " ago"
	case d < 45*24*time.Hour:
		return plural(int(d/(24*time.Hour)), "day") + " ago"
	}
	return at.UTC().Format("2 Jan 2006")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
