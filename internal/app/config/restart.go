package config

import "reflect"

// RestartNeeded returns the paths of the settings that differ from old and take effect only
// after a restart. All other settings are applied by a reload. The fields say which is which,
// with the tag `restart`; a section that has it passes it on to everything inside.
func (c *Config) RestartNeeded(old *Config) []string {
	was, is := *old, *c
	var paths []string
	// A running listener loads a new certificate, but cannot switch between HTTP and HTTPS.
	if is.TLS.Enabled() != was.TLS.Enabled() {
		paths = append(paths, "tls")
	}
	// The one line storage is read into the section blob. If it is used, people know it by that name.
	if is.Storage != "" || was.Storage != "" {
		if is.Blob == was.Blob {
			was.Storage = is.Storage // only written in another way
		} else if was.Blob = is.Blob; was.Storage == is.Storage {
			paths = append(paths, "storage") // its keys, which are set elsewhere
		}
	}
	return changedPaths(paths, reflect.ValueOf(was), reflect.ValueOf(is), "", false)
}

// changedPaths appends the paths of settings that differ and need a restart. inside says that a
// section around them does.
func changedPaths(paths []string, was, is reflect.Value, path string, inside bool) []string {
	for field, value := range is.Fields() {
		key := field.Tag.Get("yaml")
		if key == "" {
			continue
		}
		other, restart := was.FieldByIndex(field.Index), inside || needsRestart(field)
		if value.Kind() == reflect.Struct {
			paths = changedPaths(paths, other, value, join(path, key), restart)
		} else if restart && !reflect.DeepEqual(value.Interface(), other.Interface()) {
			paths = append(paths, join(path, key))
		}
	}
	return paths
}

// needsRestart reports whether a change of the field takes effect only at the next start.
func needsRestart(field reflect.StructField) bool { return field.Tag.Get("restart") != "" }
