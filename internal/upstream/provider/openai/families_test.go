package openai

import (
	"slices"
	"testing"

	"sluice/internal/upstream/catalog/known"
)

// The adapter and the list of well-known models say the same of OpenAI's models.
func TestFamilies(t *testing.T) {
	t.Parallel()
	models, err := known.Models()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range models {
		if m.Kind != "openai" || m.Embeds {
			continue
		}
		n++
		for _, name := range []string{m.Upstream, "openai." + m.Upstream} { // the second is Bedrock's
			if got := familyOf(name).efforts; !slices.Equal(got, m.Efforts) {
				t.Errorf("%s takes the efforts %v, the list says %v", name, got, m.Efforts)
			}
		}
	}
	if n == 0 {
		t.Error("the list has no model of OpenAI")
	}
}
