package moving

// Paths returns the paths of all values of a source that have no parts.
func Paths(file string, text []byte) ([]string, error) {
	root, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	var paths []string
	root.leaves(func(v *value) {
		if v.path != "" {
			paths = append(paths, v.path)
		}
	})
	return paths, nil
}
