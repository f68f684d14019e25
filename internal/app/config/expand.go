package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// maxSecretBytes limits a file that ${file:/path} names. 64 KiB hold any key or certificate.
const maxSecretBytes = 64 << 10

// expand replaces ${NAME} with the environment variable and ${file:/path} with the content of
// the file. $${ stands for a literal ${. The error is a message for the operator and contains
// nothing of what was read.
func (d *decoder) expand(text string) (string, error) {
	var out strings.Builder
	for {
		start := strings.Index(text, "${")
		if start < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if start > 0 && text[start-1] == '$' {
			out.WriteString(text[:start-1] + "${")
			text = text[start+2:]
			continue
		}
		name, rest, closed := strings.Cut(text[start+2:], "}")
		if !closed {
			return "", errors.New(`"${" has no closing "}"; write "$${" for a literal "${"`)
		}
		value, err := d.lookUp(name)
		if err != nil {
			return "", err
		}
		out.WriteString(text[:start])
		if inUserinfo(out.String(), rest) {
			value = escapeUserinfo(value)
		}
		out.WriteString(value)
		text = rest
	}
}

// inUserinfo reports whether what stands between before and after is the user or the password of an address.
func inUserinfo(before, after string) bool {
	_, authority, ok := strings.Cut(before, "://")
	end := strings.IndexAny(after, "@/?#")
	return ok && !strings.ContainsAny(authority, "@/?#") && end >= 0 && after[end] == '@'
}

// escapeUserinfo escapes a password, unless it can stand in an address as it is: then it has nothing to escape, or was
// escaped by whoever set it.
func escapeUserinfo(value string) string {
	if _, err := url.PathUnescape(value); err == nil && !strings.ContainsAny(value, "@/?#:[] \"<>\\^`{|}") {
		return value
	}
	return strings.TrimPrefix(url.UserPassword("", value).String(), ":")
}

// lookUp returns the value of one ${name}. A variable or file that does not exist or is empty is an
// error, since an empty key would fail much later. Who wants the empty text writes it.
func (d *decoder) lookUp(name string) (string, error) {
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		value, err := d.readFile(path)
		if err != nil {
			return "", fmt.Errorf("cannot read %s: %s", quote(path), reason(err))
		}
		if value == "" {
			return "", fmt.Errorf("the file %s is empty", quote(path))
		}
		return value, nil
	}
	if !isVariableName(name) {
		return "", fmt.Errorf(`"${%s}" is not the name of a variable; write ${NAME} or ${file:/path}, or "$${" for a literal "${"`, shorten(name))
	}
	value, ok := d.env[name]
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set; a server sees those that it was started with, and reads ${file:/path} again", shorten(name))
	}
	if value == "" {
		return "", fmt.Errorf("the environment variable %s is empty; give it a value, or remove this line", shorten(name))
	}
	return value, nil
}

func isVariableName(name string) bool {
	for i, c := range name {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// readSecret reads a file for ${file:/path}, without the line break that editors add at the end.
func (s *sources) readSecret(path string) (string, error) {
	text, err := readBounded(path, maxSecretBytes)
	if errors.Is(err, errTooLarge) {
		return "", errors.New("it is larger than 64 KiB")
	}
	if err != nil {
		return "", err
	}
	s.add(path, digestOf(text))
	value, cut := strings.CutSuffix(string(text), "\n")
	if cut {
		value = strings.TrimSuffix(value, "\r")
	}
	return value, nil
}
