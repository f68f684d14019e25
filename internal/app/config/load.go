package config

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"sluice/internal/kit/typo"
)

const (
	// maxFileBytes is far above any real configuration. It keeps a wrong path from being read
	// into memory.
	defaultFile  = "sluice.yaml"
	maxFileBytes = 1 << 20
	envPrefix    = "SLUICE_"
)

// Source says where settings come from. A later field overrides an earlier one, and all of
// them override the defaults.
type Source struct {
	// Path is the file. If empty, it is the one that SLUICE_CONFIG names, or sluice.yaml if
	// that exists, or none.
	Path string
	// Text, if not nil, is the text of the file, which is not read then. Path only names it in messages.
	Text []byte
	// ReadFile reads the files that ${file:/path} names; nil: from disk.
	ReadFile func(path string) (string, error)
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Flags holds the values from the command line by path, such as "listen" or "tls.cert".
	Flags map[string]string
}

// Load reads and checks the configuration. The error joins an *Error for each mistake, up to
// maxErrors.
func Load(src Source) (*Config, error) {
	c, r, err := read(src)
	if err != nil {
		return nil, err
	}
	c.findKeys(r.env)
	r.check(c)
	if err := r.err(); err != nil {
		return nil, err
	}
	for _, file := range []string{c.TLS.Cert, c.TLS.Key, c.Site.Logo} {
		if file != "" {
			c.from.addFile(file)
		}
	}
	c.from.raw = map[string]string{}
	for path, at := range r.places {
		if at.raw != "" {
			c.from.raw[path] = at.raw
		}
	}
	c.warnings = r.warnings
	return c, nil
}

// DataFolder returns the data folder that the sources name. Other settings may be wrong, or need
// variables that are not set here: whoever talks to the server on the folder does not need them.
func DataFolder(src Source) (string, error) {
	if folder := src.Flags["data"]; folder != "" {
		return folder, nil
	}
	for _, entry := range src.Environ {
		if folder, ok := strings.CutPrefix(entry, variable("data")+"="); ok && folder != "" {
			return folder, nil
		}
	}
	c, r, err := read(src)
	if err == nil && (r.failed["data"] || c.Data == "") {
		err = r.err()
	}
	if err != nil {
		return "", err
	}
	return c.Data, nil
}

// read reads the settings from all sources. What is wrong with single ones is in the record; the error
// is about a file that cannot be read at all.
func read(src Source) (*Config, *record, error) {
	env := make(map[string]string, len(src.Environ))
	for _, entry := range src.Environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	path, text, err := src.file(env)
	if err != nil {
		return nil, nil, err
	}

	c := &Config{file: path, from: &sources{text: text}}
	if path != "" {
		c.from.add(path, digestOf(text))
	} else {
		c.from.add(defaultFile, digest{}) // it may be created later
	}
	root := reflect.ValueOf(c).Elem()
	setDefaults(root)
	r := &record{env: env, places: map[string]place{}, failed: map[string]bool{}}
	if path != "" {
		d := &decoder{record: r, file: path, env: env, readFile: src.ReadFile}
		if d.readFile == nil {
			d.readFile = c.from.readSecret
		}
		if !d.decode(text, root) {
			// The text is not YAML, so nothing else can be checked.
			return nil, nil, r.err()
		}
	}
	flags := make(map[string]string, len(src.Flags))
	for path, value := range src.Flags {
		flags[flag(path)] = value
	}
	r.override(root, env, variable, r.strayVariable)
	r.override(root, flags, flag, r.strayFlag)
	return c, r, nil
}

// file returns the path and the text of the file.
func (src *Source) file(env map[string]string) (string, []byte, error) {
	if src.Text != nil {
		return src.Path, src.Text, nil
	}
	return readFile(src.Path, env)
}

// readFile finds and reads the file. The returned path is empty if there is none.
func readFile(path string, env map[string]string) (string, []byte, error) {
	given := path != ""
	if !given {
		path = env[envPrefix+"CONFIG"]
		given = path != ""
	}
	if !given {
		path = defaultFile
	}
	text, err := readBounded(path, maxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !given:
		return "", nil, nil
	case errors.Is(err, errTooLarge):
		return "", nil, &Error{File: path, Problem: "the file is larger than 1 MiB, the maximum for a configuration"}
	case err != nil:
		return "", nil, &Error{File: path, Problem: "cannot read the file: " + reason(err)}
	}
	return path, text, nil
}

var errTooLarge = errors.New("too large")

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errTooLarge
	}
	return text, err
}

// reason returns a file error without the operation and the path, which the message has
// already.
func reason(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return err.Error()
}

// setDefaults fills a struct from its default tags.
func setDefaults(v reflect.Value) {
	for field, value := range v.Fields() {
		if text, ok := field.Tag.Lookup("default"); ok {
			setText(value, text) // never fails: a test loads every default
		} else if value.Kind() == reflect.Struct {
			setDefaults(value)
		}
	}
}

// eachSetting calls visit for every setting that has a fixed path and can therefore be set by
// a variable or flag: scalars and lists of scalars, but not the entries of providers and
// models. visit reports whether it set the value.
func eachSetting(v reflect.Value, path string, visit func(path string, v reflect.Value) bool) (set bool) {
	switch {
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			if key := field.Tag.Get("yaml"); key != "" {
				set = eachSetting(value, join(path, key), visit) || set
			}
		}
		return set
	case v.Kind() == reflect.Map && isSection(v.Type()): // Config.Plans
		for _, name := range planNames {
			plan := reflect.New(v.Type().Elem()).Elem()
			key := reflect.ValueOf(name)
			if present := v.MapIndex(key); present.IsValid() {
				plan.Set(present)
			}
			if eachSetting(plan, join(path, name), visit) {
				if v.IsNil() {
					v.Set(reflect.MakeMap(v.Type()))
				}
				v.SetMapIndex(key, plan)
				set = true
			}
		}
		return set
	case v.Kind() == reflect.Slice && isSection(v.Type().Elem()):
		return false
	}
	return visit(path, v)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// variable returns the environment variable of a path: tls.cert is SLUICE_TLS_CERT.
func variable(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// flag returns the command-line flag of a path: tls.cert is --tls-cert.
func flag(path string) string {
	return "--" + strings.NewReplacer(".", "-", "_", "-").Replace(path)
}

// override sets every setting for which values has an entry under its name. Entries that match
// no setting are passed to stray.
func (r *record) override(root reflect.Value, values map[string]string, name func(path string) string, stray func(name string, known []string)) {
	if len(values) == 0 {
		return
	}
	var known []string
	eachSetting(root, "", func(path string, v reflect.Value) bool {
		name := name(path)
		known = append(known, name)
		text, given := values[name]
		if !given {
			return false
		}
		// The value replaces a list in the file, so the places of its entries no longer apply.
		maps.DeleteFunc(r.places, func(p string, _ place) bool { return strings.HasPrefix(p, path+"[") })
		r.places[path] = place{source: name}
		if err := setText(v, text); err != nil {
			r.fail(path, "expected %s, found %s", wordsFor(v.Type()), quote(text))
			return false
		}
		return true
	})
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			stray(name, known)
		}
	}
}

// strayVariable warns about a variable that looks like a setting but is none. It is only a
// warning, because the environment may serve other versions of Sluice as well.
func (r *record) strayVariable(name string, known []string) {
	switch {
	case !strings.HasPrefix(name, envPrefix),
		name == envPrefix+"CONFIG", // names the file
		// The rest are not settings of the service. They are documented with the commands and tests that use them.
		name == envPrefix+"KEY", name == envPrefix+"SERVER", name == envPrefix+"TOKEN",
		strings.HasPrefix(name, envPrefix+"TEST_"),
		strings.HasPrefix(name, envPrefix+"SOAK"):
		return
	}
	r.warnings = append(r.warnings, name+": no setting has this environment variable"+typo.DidYouMean(name, known))
}

// strayFlag reports a flag that matches no setting.
func (r *record) strayFlag(name string, known []string) {
	r.errors = append(r.errors, &Error{File: name, Problem: "no setting has this flag" + typo.DidYouMean(name, known)})
}
