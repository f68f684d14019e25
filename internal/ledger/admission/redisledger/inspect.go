package redisledger

import (
	"context"
	"strings"
)

// Inspection is what an operator should know about a Redis.
type Inspection struct {
	Name    string // Redis or Valkey
	Version string
	// Evicts says that the server forgets keys when its memory is full. Limits are then not exact.
	Evicts bool
}

// Inspect looks at the Redis that a URL names. It changes nothing. Of a cluster it looks at one node.
func Inspect(ctx context.Context, url string) (Inspection, error) {
	var in Inspection
	option, err := parseURL(url)
	if err != nil {
		return in, err
	}
	t, err := dialer(option, (*Options)(nil).defaults().Deadline, func() {})()
	if err != nil {
		return in, err
	}
	defer t.close()
	// The dialer of a URL always returns a client; only tests have another transport.
	c := t.(client)
	for _, section := range []string{"server", "memory"} {
		text, err := c.Do(ctx, c.B().Info().Section(section).Build()).ToString()
		if err != nil {
			return in, err
		}
		in.read(text)
	}
	return in, nil
}

// read takes what matters from a reply to INFO.
func (in *Inspection) read(info string) {
	for line := range strings.Lines(info) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch field {
		case "redis_version": // Valkey says it, too, for programs that expect Redis
			if in.Name == "" {
				in.Name, in.Version = "Redis", value
			}
		case "valkey_version":
			in.Name, in.Version = "Valkey", value
		case "maxmemory_policy":
			in.Evicts = value != "noeviction"
		}
	}
}
