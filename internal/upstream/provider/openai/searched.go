package openai

import (
	"bytes"
	"encoding/json"

	"sluice/internal/ledger/price"
	"sluice/internal/upstream/provider"
)

// searched is what Perplexity has searched for a reply (docs.perplexity.ai/getting-started/pricing): it charges for each
// request, by the size of the context that its search may fill. Its method note does nothing on nil.
type searched struct{ size string }

// note reads a chunk, or a whole reply. The figures say the size.
func (s *searched) note(raw []byte) {
	if s == nil || !bytes.Contains(raw, []byte(`"search_context_size"`)) {
		return
	}
	var w struct {
		Usage struct {
			Size string `json:"search_context_size"`
		} `json:"usage"`
	}
	if json.Unmarshal(raw, &w) == nil && w.Usage.Size != "" {
		s.size = w.Usage.Size
	}
}

// Bill implements provider.Billed.
func (s *stream) Bill() provider.Bill {
	if s.searched == nil || s.searched.size == "" {
		return provider.Bill{}
	}
	return provider.Bill{Uses: []price.Use{{Name: "request_" + s.searched.size, Milli: 1000}}}
}
