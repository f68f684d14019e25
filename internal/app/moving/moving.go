// Package moving converts the configuration of other gateways into ours, and their keys into accounts and keys.
//
// A source is read into a tree of values. The reader of a format marks every value that it uses, and fills a Draft. What
// nobody has marked in the end is explained by the format's table of advice. So each value of the source has exactly one
// line in the report, and nothing is dropped silently. Import returns a configuration only if it passes the same checks as
// one that is loaded.
//
// Nothing here talks to a server: cmd/sluice writes what the operator asks for.
package moving

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/app/config"
)

// Options says how to convert. The zero value works.
type Options struct {
	// From is the name of the format; empty: it is guessed.
	From string
	// Name is the name of the source for messages.
	Name string
	// Plan is the tier of all models; empty: free.
	Plan string
	// Model is the id of the model of a Portkey configuration that names none.
	Model string
	// WithSecrets writes keys of the source into the result.
	WithSecrets bool
	// SecretFolder, if set, is the folder of files that keys of the source are referred to by; see Result.Secrets.
	SecretFolder string
	// ReadFile reads a file that the source includes; nil: the source may include none.
	ReadFile func(name string) ([]byte, error)
}

// Result is what Import returns.
type Result struct {
	From    string   // the format
	YAML    string   // our configuration
	Report  *Report  // what became of each value
	Secrets []Secret // keys in clear that the source has and YAML refers to
	// Warnings are those of the configuration.
	Warnings []string
	// Providers and Models are how many the configuration has.
	Providers, Models int
}

// MaxBytes is the largest source, included files each.
const MaxBytes = 1 << 20

// format is one gateway's configuration.
type format struct {
	name string
	// like reports whether the source looks like the format.
	like func(root *value) bool
	read func(root *value, d *draft, o *Options) error
	// advice explains values that read has not marked.
	advice []advice
}

func formats() []format {
	return []format{
		{"litellm", likeLiteLLM, readLiteLLM, liteLLMAdvice},
		{"portkey", likePortkey, readPortkey, portkeyAdvice},
		{"new-api", likeNewAPI, readNewAPI, channelAdvice},
		{"one-api", likeOneAPI, readOneAPI, channelAdvice},
		{"openrouter", likeOpenRouter, readOpenRouter, openRouterAdvice},
	}
}

// Formats returns the names of the formats.
func Formats() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// Import converts a source. The error says what is wrong with it and holds nothing of its values.
func Import(text []byte, o Options) (*Result, error) {
	if o.Plan == "" {
		o.Plan = "free"
	}
	root, err := parse(o.Name, text)
	if err != nil {
		return nil, err
	}
	f, err := choose(root, o.From)
	if err != nil {
		return nil, err
	}
	d := newDraft(&o, root)
	if err := f.read(root, d, &o); err != nil {
		return nil, err
	}
	d.complete()
	res := &Result{From: f.name, YAML: d.write(f.name), Secrets: d.secrets.list, Providers: len(d.providers), Models: len(d.models)}
	res.Report = newReport(d, f.advice)
	cfg, err := config.Load(config.Source{Path: "sluice.yaml", Text: []byte(res.YAML), Environ: d.sampleEnviron(), ReadFile: d.sampleFile})
	if err != nil {
		return nil, fmt.Errorf("the converted configuration is not valid, so it is not written; this is a bug of the converter:\n%w", err)
	}
	for _, w := range cfg.Warnings() {
		if !o.WithSecrets || !strings.Contains(w, "the key is written in the file") {
			res.Warnings = append(res.Warnings, w)
		}
	}
	return res, nil
}

var errFormat = errors.New("this is not a configuration of a gateway that is known here")

// choose returns the format with a name, or the one that the source looks like.
func choose(root *value, name string) (format, error) {
	all := formats()
	if name == "" {
		i := slices.IndexFunc(all, func(f format) bool { return f.like(root) })
		if i < 0 {
			return format{}, fmt.Errorf("%w; name its format with --from: %s", errFormat, strings.Join(Formats(), ", "))
		}
		return all[i], nil
	}
	i := slices.Index(Formats(), name)
	if i < 0 {
		return format{}, fmt.Errorf("%q is not a known format; it must be one of %s", name, strings.Join(Formats(), ", "))
	}
	return all[i], nil
}
