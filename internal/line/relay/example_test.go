package relay_test

import (
	"fmt"

	"sluice/internal/line/relay"
	"sluice/internal/upstream/provider"
)

// Substance tells the first event that has something to say from those before it. Until then a
// request can still move on to another upstream.
func ExampleSubstance() {
	for _, raw := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`,
		`{"error":{"message":"overloaded"}}`,
	} {
		some, err := relay.Substance(&provider.Event{Kind: provider.Chunk, Raw: []byte(raw)})
		fmt.Println(some, err != nil)
	}
	// Output:
	// false false
	// true false
	// false true
}
