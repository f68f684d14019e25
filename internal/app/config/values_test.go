package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		into any
		text string
		want string // empty: refused
	}{
		{new(Limit), "0", "0"},
		{new(Limit), "unlimited", "-1"},
		{new(Limit), "1000000000000", "1000000000000"},
		{new(Limit), "1000000000001", ""},
		{new(Limit), "-1", ""},
		{new(Limit), "+1", ""},
		{new(Limit), "1.0", ""},
		{new(Limit), "1_000", ""},
		{new(Limit), "Unlimited", ""},
		{new(Limit), "", ""},
		{new(Milli), "1", "1000"},
		{new(Milli), "1.5", "1500"},
		{new(Milli), "0.001", "1"},
		{new(Milli), "1000000", "1000000000"},
		{new(Milli), "1000000.001", ""},
		{new(Milli), "0.0001", ""},
		{new(Milli), "1.5000", ""},
		{new(Milli), ".5", ""},
		{new(Milli), "1.", ""},
		{new(Milli), "1.+5", ""},
		{new(Milli), "1e3", ""},
		{new(Milli), "1,5", ""},
		{new(Milli), "9999999999999999999999", ""},
		{new(Money), "0.15", "150000"},
		{new(Money), "0.000001", "1"},
		{new(Money), "12.50", "12500000"},
		{new(Money), "1000000", "1000000000000"},
		{new(Money), "1000000.000001", ""},
		{new(Money), "0.0000001", ""},
		{new(Money), "$1", ""},
		{new(bool), "true", "true"},
		{new(bool), "1", ""},
		{new(int), "12", "12"},
		{new(int), "1.5", ""},
		{new([]string), "a, b,,c ", "[a b c]"},
		{new([]string), "", "[]"},
		{new(*Limit), "unlimited", "-1"},
		{new(*Limit), "x", ""},
	} {
		v := reflect.ValueOf(test.into).Elem()
		err := setText(v, test.text)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		got := ""
		if err == nil && v.CanInt() {
			got = fmt.Sprint(v.Int())
		} else if err == nil {
			got = fmt.Sprint(v.Interface())
		}
		if got != test.want {
			t.Errorf("setText(%T, %q) = %q, want %q", test.into, test.text, got, test.want)
		}
	}
}

func TestValuesAsText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value fmt.Stringer
		want  string
	}{
		{Limit(0), "0"},
		{Limit(10), "10"},
		{Unlimited, "unlimited"},
		{Milli(0), "0"},
		{Milli(1), "0.001"},
		{Milli(1500), "1.5"},
		{Milli(10_000), "10"},
		{Milli(12_345), "12.345"},
		{Money(150_000), "0.15"},
		{Money(75_000_000), "75"},
		{Money(1), "0.000001"},
	} {
		if got := test.value.String(); got != test.want {
			t.Errorf("%T(%d).String() = %q, want %q", test.value, test.value, got, test.want)
		}
	}
}

func TestSecretHidesItself(t *testing.T) {
	t.Parallel()
	const secret = Secret("sk-very-secret-1234")
	held := struct{ Key Secret }{secret}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "key", secret)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "key", secret)
	asJSON, err := json.Marshal(held)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"%v": fmt.Sprintf("%v", held), "%+v": fmt.Sprintf("%+v", held), "%#v": fmt.Sprintf("%#v", held), "%s": secret.String(),
		"%q": fmt.Sprintf("%q", secret), "%x": fmt.Sprintf("%x", secret), "json": string(asJSON), "slog": log.String(),
	} {
		if strings.Contains(got, "very") || strings.Contains(got, fmt.Sprintf("%x", "very")) {
			t.Errorf("%s of a secret = %s, which shows it", name, got)
		}
	}
	for secret, want := range map[Secret]string{"": "", "short": "…", "1234567": "…", "12345678": "…5678", secret: "…1234"} {
		if got := secret.String(); got != want {
			t.Errorf("Secret(%q).String() = %q, want %q", secret.Reveal(), got, want)
		}
	}
}
