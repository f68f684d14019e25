package moving

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/app/config"
)

// draft is the configuration that a source is converted to, in a form that does not depend on the source.
type draft struct {
	options   *Options
	sources   []*value
	providers []*provider
	models    []*model
	aliases   map[string]string
	aliased   map[string]*value // where each alias comes from
	secrets   secrets
	missing   []Entry
	// open says that the source limits nobody unless it is told to, so our plans must not either.
	open  bool
	notes []string // for the top of the file
}

// provider is one entry of providers.
type provider struct {
	name, kind, baseURL, apiVersion, region  string
	keys                                     []string
	accessKeyID, secretAccessKey, sessionKey string
	discover                                 string
	maxConcurrent                            int
	firstContent                             time.Duration
	comment                                  string
}

// model is one entry of models.
type model struct {
	id                 string
	targets            []target
	fallbacks          []string
	fallbackOf         []*value // where each fallback comes from
	embedding          bool
	context, maxOutput int
	tools, reasons     *bool
	json               *bool
	input, output      *int64 // in millionths of a dollar per million tokens
	cached, reasoning  *int64
	description        string
	hint               string // a name of the model that may be known
	comments           []string
}

// target is one provider that serves a model.
type target struct {
	to       *provider
	upstream string
	weight   int
	spare    bool // used only while no other is available
}

// Secret is a key that stands in clear in the source.
type Secret struct {
	Name  string // of the variable, or of the file
	value string
}

// Reveal returns the key.
func (s Secret) Reveal() string { return s.value }

// secrets are the keys in clear, each under one name.
type secrets struct {
	list []Secret
	used map[string]bool // names that are taken
}

func newDraft(o *Options, root *value) *draft {
	d := &draft{options: o, aliases: map[string]string{}, aliased: map[string]*value{}, secrets: secrets{used: map[string]bool{}}}
	d.addSource(root)
	return d
}

// addSource adds a tree whose values the report explains. The variables that it names are not used for keys in clear.
func (d *draft) addSource(root *value) {
	d.sources = append(d.sources, root)
	root.leaves(func(v *value) {
		if name, ok := variable(v.text); ok {
			d.secrets.used[name] = true
		}
	})
}

// variable returns the environment variable that a text stands for: os.environ/NAME, or ${NAME}.
func variable(text string) (string, bool) {
	name, ok := strings.CutPrefix(text, "os.environ/")
	if !ok {
		if name, ok = strings.CutPrefix(text, "${"); ok {
			name, ok = strings.CutSuffix(name, "}")
		}
	}
	return name, ok && isName(name)
}

// isName reports whether a text can be the name of a variable.
func isName(name string) bool {
	for i, c := range name {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// plain returns the text of a setting that is not secret, for our file.
func plain(text string) string {
	if name, ok := variable(text); ok {
		return "${" + name + "}"
	}
	return strings.ReplaceAll(text, "${", "$${")
}

// secret returns how our file refers to a key. name is the variable for a key that stands in clear.
func (d *draft) secret(v *value, name string) string {
	if env, ok := variable(v.text); ok {
		v.taken("as ${" + env + "}")
		return "${" + env + "}"
	}
	if d.options.WithSecrets {
		v.taken("in clear, as --with-secrets says")
		return strings.ReplaceAll(v.text, "${", "$${")
	}
	ref, known := d.secrets.name(v.text, name)
	if d.options.SecretFolder != "" {
		file := path.Join(d.options.SecretFolder, ref)
		if !known {
			v.changed("the key stands in a file of its own now, and the configuration refers to it by ${file:…}")
		}
		v.changed("as ${file:…}, like the same key above")
		return "${file:" + file + "}"
	}
	v.changed("the key is not repeated: set the variable " + ref + " to it for sluice serve")
	return "${" + ref + "}"
}

// name returns the name of a key in clear, and whether the key has been seen before.
func (s *secrets) name(key, want string) (string, bool) {
	for _, old := range s.list {
		if old.value == key {
			return old.Name, true
		}
	}
	name := want
	for n := 2; s.used[name]; n++ {
		name = want + "_" + strconv.Itoa(n)
	}
	s.used[name] = true
	s.list = append(s.list, Secret{name, key})
	return name, false
}

// sampleKey stands for keys when the configuration is checked.
const sampleKey = "sample-key-of-the-check-0123456789"

// sampleEnviron returns values for all variables that the file refers to.
func (d *draft) sampleEnviron() []string {
	var env []string
	for _, p := range d.providers {
		if name, ok := variable(strings.TrimSuffix(p.baseURL, "/v1")); ok {
			env = append(env, name+"=https://sample.example.com")
		}
	}
	for name := range d.secrets.used {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env = append(env, name+"="+sampleKey)
		}
	}
	return env
}

// sampleFile stands for the files that the configuration refers to.
func (d *draft) sampleFile(string) (string, error) { return sampleKey, nil }

// reference returns a reference to a variable that the source does not name itself.
func (d *draft) reference(name string) string {
	d.secrets.used[name] = true
	return "${" + name + "}"
}

// provider returns the provider with the same address and keys, or adds it under the name.
func (d *draft) provider(p *provider, name string) *provider {
	same := func(q *provider) bool {
		return q.kind == p.kind && q.baseURL == p.baseURL && q.apiVersion == p.apiVersion && q.region == p.region &&
			slices.Equal(q.keys, p.keys) && q.accessKeyID == p.accessKeyID && q.secretAccessKey == p.secretAccessKey
	}
	if i := slices.IndexFunc(d.providers, same); i >= 0 {
		return d.providers[i]
	}
	p.name = d.freeName(cmp.Or(slug(name), p.kind))
	d.providers = append(d.providers, p)
	return p
}

// freeName returns a name that no provider has.
func (d *draft) freeName(name string) string {
	free := name
	taken := func(p *provider) bool { return p.name == free }
	for n := 2; free == "sandbox" || slices.ContainsFunc(d.providers, taken); n++ {
		free = name + "-" + strconv.Itoa(n)
	}
	return free
}

// slug returns a text as a name: lower-case letters, digits and dashes.
func slug(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text)
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "-")
	}
	return strings.Trim(text[:min(len(text), 40)], "-")
}

// hostName returns a name for a provider from its address.
func hostName(kind, address string) string {
	if name, ok := variable(strings.TrimSuffix(address, "/v1")); ok {
		for _, tail := range []string{"_BASE_URL", "_API_BASE", "_URL", "_BASE", "_ENDPOINT", "_API"} {
			name = strings.TrimSuffix(name, tail)
		}
		return cmp.Or(strings.ToLower(name), kind)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || address == config.Address(kind) {
		return kind
	}
	host := u.Hostname()
	if first, _, ok := strings.Cut(host, "."); ok && first != "api" && first != "www" && strings.Trim(host, "0123456789.") != "" {
		host = first
	}
	if port := u.Port(); port != "" {
		host += "-" + port
	}
	return host
}

// model returns the model with an id, and adds it if there is none.
func (d *draft) model(id string) *model {
	for _, m := range d.models {
		if m.id == id {
			return m
		}
	}
	m := &model{id: id}
	if variableOnly(id) { // an id is never a reference
		m.id = strings.NewReplacer("$", "", "{", "", "}", "").Replace(id)
	}
	d.models = append(d.models, m)
	return m
}

// has reports whether a model or an alias has the id.
func (d *draft) has(id string) bool {
	return d.aliases[id] != "" || slices.ContainsFunc(d.models, func(m *model) bool { return m.id == id })
}

// resolve returns the model that an id or an alias stands for.
func (d *draft) resolve(id string) string { return cmp.Or(d.aliases[id], id) }

// modelID returns a name as the id of a model.
func modelID(name string) string {
	id := strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || r == 0xa0 || r == 0x2028 || r == 0x3000 {
			return '-'
		}
		return r
	}, strings.TrimSpace(name))
	if strings.HasPrefix(id, "sandbox/") || id == "service/auto" {
		id = "my-" + id
	}
	return id
}

// addTarget adds a target to a model, or adds its weight to the same target.
func (m *model) addTarget(t target) {
	for i := range m.targets {
		if old := &m.targets[i]; old.to == t.to && old.upstream == t.upstream {
			old.weight += t.weight
			old.spare = old.spare && t.spare
			return
		}
	}
	m.targets = append(m.targets, t)
}

// need reports something that our configuration needs and the source does not say.
func (d *draft) need(path, format string, args ...any) {
	d.missing = append(d.missing, Entry{Path: path, Outcome: Missing, Text: fmt.Sprintf(format, args...)})
}
