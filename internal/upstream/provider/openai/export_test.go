package openai

// Kinds returns the names of the presets.
func Kinds() (kinds []string) {
	for i := range presets {
		kinds = append(kinds, presets[i].Kind)
	}
	return kinds
}
