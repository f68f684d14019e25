package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hidden stands for a value that must not be shown.
const hidden = "(hidden)"

// Redacted returns all settings in force as YAML, for people who help the operator. Secrets are
// hidden. What ${…} was replaced with is shown as it is in the file, and URLs without passwords
// and without the values of parameters.
func (c *Config) Redacted() string {
	var b strings.Builder
	file := c.file
	if file == "" {
		file = "none"
	}
	fmt.Fprintf(&b, "# The settings in force, defaults included. The file: %s\n", file)
	for _, f := range c.found {
		fmt.Fprintf(&b, "# Found in the environment: %s\n", f.Variable)
	}
	c.redact(&b, reflect.ValueOf(*c), "", "")
	return b.String()
}

// redact writes the settings of a section, which has the path and the indentation.
func (c *Config) redact(b *strings.Builder, section reflect.Value, path, indent string) {
	for _, field := range fieldsOf(section.Type()) {
		key := field.Tag.Get("yaml")
		c.redactValue(b, key, section.FieldByIndex(field.Index), join(path, key), indent)
	}
}

// redactValue writes one setting, which may be a section or a list.
func (c *Config) redactValue(b *strings.Builder, key string, v reflect.Value, path, indent string) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	head := indent + key + ":"
	switch {
	case v.Kind() == reflect.Pointer: // nil: not set
	case isNames(v.Type()):
		b.WriteString(head + "\n")
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			b.WriteString(indent + "  " + strconv.Quote(name.String()) + ": " + c.redactScalar(v.MapIndex(name), join(path, name.String())) + "\n")
		}
	case v.Kind() == reflect.Map:
		b.WriteString(head + "\n")
		for _, name := range planNames {
			if plan := v.MapIndex(reflect.ValueOf(name)); plan.IsValid() {
				c.redactValue(b, name, plan, join(path, name), indent+"  ")
			}
		}
	case isSection(v.Type()):
		b.WriteString(head + "\n")
		c.redact(b, v, path, indent+"  ")
	case v.Kind() == reflect.Slice && isSection(v.Type().Elem()):
		b.WriteString(head + "\n")
		for i := range v.Len() {
			b.WriteString(indent + "  -\n")
			c.redact(b, v.Index(i), index(path, i), indent+"    ")
		}
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = c.redactScalar(v.Index(i), index(path, i))
		}
		b.WriteString(head + " [" + strings.Join(items, ", ") + "]\n")
	default:
		b.WriteString(head + " " + c.redactScalar(v, path) + "\n")
	}
}

// redactScalar returns a value as it may be shown.
func (c *Config) redactScalar(v reflect.Value, path string) string {
	if raw := c.from.raw[path]; raw != "" {
		return strconv.Quote(raw)
	}
	switch v := v.Interface().(type) {
	case Secret:
		if v == "" {
			return `""`
		}
		return strconv.Quote(hidden)
	case string:
		return strconv.Quote(WithoutSecrets(v))
	case time.Duration, Limit, Milli, Money, Dollars, Factor:
		return fmt.Sprint(v)
	case netip.Prefix:
		return strconv.Quote(v.String())
	default: // bool and int
		return fmt.Sprint(v)
	}
}

// WithoutSecrets hides what is secret in a URL: the password, and the values of parameters, in which
// some vendors pass keys. Other text stays as it is.
func WithoutSecrets(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	if u.User != nil {
		// A name without a password is often a token.
		if _, given := u.User.Password(); given {
			u.User = url.UserPassword(u.User.Username(), hidden)
		} else {
			u.User = url.User(hidden)
		}
	}
	values := u.Query()
	for name := range values {
		values.Set(name, hidden)
	}
	u.RawQuery = values.Encode()
	plain, err := url.PathUnescape(u.String()) // so that people can read it
	if err != nil {
		return u.String()
	}
	return plain
}
