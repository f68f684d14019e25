package moving

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
)

// KeyOptions says how to convert keys.
type KeyOptions struct {
	// From is the name of the gateway; empty: it is guessed.
	From string
	// Domain is where teams and people without an e-mail address get one: the team research becomes research@Domain.
	Domain string
	// Now decides which keys have expired.
	Now time.Time
}

// File is one exported table.
type File struct {
	Name string
	Text []byte
}

// Holder is an account to create, with its keys.
type Holder struct {
	Email  string            `json:"email"`
	Limits account.Overrides `json:"limits"`
	// Budgets are for all calls of the account.
	Budgets []Budget     `json:"budgets,omitempty"`
	Keys    []PlannedKey `json:"keys"`

	ref string // the team or person in the source
}

// PlannedKey is a sub-key to create.
type PlannedKey struct {
	Name    string            `json:"name"`
	Old     string            `json:"old,omitempty"` // what the old gateway shows of the key
	Limits  account.KeyLimits `json:"limits"`
	Budgets []Budget          `json:"budgets,omitempty"`
}

// KeyPlan is what Keys makes of the tables of another gateway.
type KeyPlan struct {
	From    string    `json:"from"`
	Holders []*Holder `json:"accounts"`
	Report  *Report   `json:"report"`
}

// Count returns how many keys there are to create.
func (p *KeyPlan) Count() int {
	n := 0
	for _, h := range p.Holders {
		n += len(h.Keys)
	}
	return n
}

// keyReader collects accounts and keys.
type keyReader struct {
	options KeyOptions
	sources []*value
	holders []*Holder
	missing []Entry
	nobody  int // teams and people without an e-mail address
}

// keyFormat is the tables of one gateway.
type keyFormat struct {
	name   string
	like   func(row *value) bool
	read   func(r *keyReader, tables []*value) error
	advice []advice
}

func keyFormats() []keyFormat {
	return []keyFormat{
		{"litellm", likeLiteLLMKeys, readLiteLLMKeys, liteLLMKeyAdvice},
		{"new-api", likeTokens, readTokens, tokenAdvice},
		{"one-api", likeTokens, readTokens, tokenAdvice},
	}
}

// KeyFormats returns the names of the gateways whose keys can be converted.
func KeyFormats() []string {
	var names []string
	for _, f := range keyFormats() {
		names = append(names, f.name)
	}
	return names
}

// maxTables is how many tables are read at once.
const maxTables = 20

// Keys plans accounts and keys from exported tables. Which table a file holds is known by its columns.
//
// The keys themselves are not taken. Other gateways let people choose a key, and of a hash nobody can tell whether the key
// behind it is one that can be guessed. Keys of this service have 238 random bits and a checksum (docs/api.md#accounts-and-keys).
func Keys(files []File, o KeyOptions) (*KeyPlan, error) {
	if len(files) > maxTables {
		return nil, fmt.Errorf("there are %d files; at most %d are read at once", len(files), maxTables)
	}
	r := &keyReader{options: o}
	first, err := r.readTables(files)
	if err != nil {
		return nil, err
	}
	f, err := chooseKeys(first, o.From)
	if err != nil {
		return nil, err
	}
	if err := f.read(r, r.sources); err != nil {
		return nil, err
	}
	r.split()
	if r.nobody > 0 {
		r.need("accounts", "%d teams or people have keys but no e-mail address; name a domain of yours with --domain, so that the team research becomes research@DOMAIN", r.nobody)
	}
	r.holders = slices.DeleteFunc(r.holders, func(h *Holder) bool { return h.Email == "" })
	return &KeyPlan{From: f.name, Holders: r.holders, Report: newReport(&draft{sources: r.sources, missing: r.missing}, f.advice)}, nil
}

// readTables reads the files, and returns a row of keys if there is one.
func (r *keyReader) readTables(files []File) (first *value, err error) {
	for _, f := range files {
		t, err := table(f.Name, f.Text)
		if err != nil {
			return nil, err
		}
		if len(files) > 1 {
			t.rebase(f.Name + ": ")
		}
		r.sources = append(r.sources, t)
		if all := rows(t); len(all) > 0 && slices.ContainsFunc(keyFormats(), func(k keyFormat) bool { return k.like(all[0]) }) {
			first = all[0]
		}
	}
	return first, nil
}

// chooseKeys returns the format with a name, or the one that a row looks like.
func chooseKeys(row *value, name string) (keyFormat, error) {
	all := keyFormats()
	i := slices.Index(KeyFormats(), name)
	if name == "" {
		i = slices.IndexFunc(all, func(f keyFormat) bool { return row != nil && f.like(row) })
	}
	switch {
	case i >= 0:
		return all[i], nil
	case name == "":
		return keyFormat{}, errors.New("no file is a table of keys that is known here; export LiteLLM_VerificationToken (and the tables of users, teams and budgets), or tokens and users of new-api, with their column names")
	}
	return keyFormat{}, fmt.Errorf("keys of %q cannot be converted; only those of %s", name, strings.Join(KeyFormats(), ", "))
}

func (r *keyReader) need(path, format string, args ...any) {
	r.missing = append(r.missing, Entry{Path: path, Outcome: Missing, Text: fmt.Sprintf(format, args...)})
}

// holder returns the account of a team or a person, and adds it if there is none. email may be empty; name is then the part
// before the domain.
func (r *keyReader) holder(ref, email, name string) *Holder {
	for _, h := range r.holders {
		if h.ref == ref {
			return h
		}
	}
	h := &Holder{ref: ref}
	if parsed, err := account.ParseEmail(email); err == nil {
		h.Email = parsed
	} else if local := slug(name); r.options.Domain != "" && local != "" {
		h.Email = local + "@" + r.options.Domain
		for n := 2; slices.ContainsFunc(r.holders, func(o *Holder) bool { return o.Email == h.Email }); n++ {
			h.Email = local + "-" + strconv.Itoa(n) + "@" + r.options.Domain
		}
	}
	if i := slices.IndexFunc(r.holders, func(o *Holder) bool { return h.Email != "" && o.Email == h.Email }); i >= 0 {
		return r.holders[i]
	}
	r.holders = append(r.holders, h)
	return h
}

// add adds a key to an account, under a name that no other key of the account has.
func (h *Holder) add(k PlannedKey) {
	k.Name = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return -1
		}
		return c
	}, strings.TrimSpace(strings.ToValidUTF8(k.Name, "")))
	k.Name = strings.TrimSpace(strings.ToValidUTF8(k.Name[:min(len(k.Name), 90)], ""))
	base := cmp.Or(k.Name, "key")
	k.Name = base
	for n := 2; slices.ContainsFunc(h.Keys, func(o PlannedKey) bool { return strings.EqualFold(o.Name, k.Name) }); n++ {
		k.Name = base + " " + strconv.Itoa(n)
	}
	h.Keys = append(h.Keys, k)
}

// split divides accounts with more keys than one may have.
func (r *keyReader) split() {
	var all []*Holder
	for _, h := range r.holders {
		if len(h.Keys) == 0 {
			all = append(all, h)
		}
		if h.Email == "" && len(h.Keys) > 0 {
			r.nobody++
		}
		local, domain, _ := strings.Cut(h.Email, "@")
		for i, part := range slices.Collect(slices.Chunk(h.Keys, account.MaxSubKeys)) {
			one := &Holder{Email: h.Email, Limits: h.Limits, Budgets: h.Budgets, Keys: part, ref: h.ref}
			if i > 0 && h.Email != "" {
				one.Email = local + "+" + strconv.Itoa(i+1) + "@" + domain
			}
			all = append(all, one)
		}
		if n := len(h.Keys); n > account.MaxSubKeys && h.Email != "" {
			r.need("accounts."+h.Email, "it has %d keys, and an account has at most %d; further accounts (%s+2@%s …) take the others, each with all limits of the first", n, account.MaxSubKeys, local, domain)
		}
	}
	r.holders = slices.DeleteFunc(all, func(h *Holder) bool { return len(h.Keys) == 0 })
}

// limit returns a limit, or nil if the source has none.
func limit(v *value, to string) *account.Limit {
	n, ok := v.number()
	if !ok || n < 1 || n > float64(account.MostLimit) {
		return nil
	}
	v.taken(to)
	l := account.Limit(n)
	return &l
}

// names returns a list of names: of JSON, of a PostgreSQL array, or separated by commas or lines.
func names(v *value) []string {
	if v.is(isList) {
		var out []string
		for _, item := range v.items {
			out = append(out, item.String())
		}
		return out
	}
	text := strings.TrimSpace(v.String())
	if strings.HasPrefix(text, "[") {
		if list, err := parse("list", []byte(text)); err == nil && list.is(isList) {
			return names(list)
		}
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == '"' || c <= ' ' })
}

// when returns a time: RFC 3339, as PostgreSQL writes it, or in seconds.
func when(v *value) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999", time.DateOnly} {
		if at, err := time.Parse(layout, v.String()); err == nil {
			return at.UTC(), true
		}
	}
	if n, ok := v.number(); ok && n > 0 && n < 1e11 {
		return time.Unix(int64(n), 0).UTC(), true
	}
	return time.Time{}, false
}
