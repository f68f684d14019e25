package misses

import "sluice/internal/prompt/prefix"

// Reply is why a call was not a hit, as the API and the command line have it. Its names are part of their formats.
type Reply struct {
	Reason Reason `json:"reason"`
	Text   string `json:"text"`
	// HitRate is the share of the prompt that was read from a cache.
	HitRate float64 `json:"hit_rate"`
	// ComparedWith is the id of the call before it in the conversation; empty: there is none.
	ComparedWith string `json:"compared_with,omitempty"`
	// Seconds are those between both, and KeptSeconds for how long the vendor keeps a prompt; 0: it is not known.
	Seconds     float64 `json:"seconds,omitempty"`
	KeptSeconds float64 `json:"kept_seconds,omitempty"`
	Changed     *Place  `json:"changed,omitempty"`
}

// Place is where a prompt begins to differ from that of the call before.
type Place struct {
	Part string `json:"part"` // tools, system or messages
	// Message and ToMessage are the first and the last message that may be it, counted from 1 after the system prompt.
	Message   int `json:"message,omitempty"`
	ToMessage int `json:"to_message,omitempty"`
	FromByte  int `json:"from_byte"`
	ToByte    int `json:"to_byte,omitempty"` // 0: somewhere behind FromByte
}

// partNames are the parts in the API.
var partNames = [...]string{prefix.Tools: "tools", prefix.System: "system", prefix.Messages: "messages"}

// Reply returns what the API says; nil for nil.
func (w *Why) Reply(staff bool) *Reply {
	if w == nil {
		return nil
	}
	r := &Reply{Reason: w.Reason, Text: w.Text(staff), HitRate: w.Share}
	if w.Before != nil {
		r.ComparedWith, r.Seconds, r.KeptSeconds = w.Before.ID, w.Gap.Seconds(), w.Life().Seconds()
	}
	if c := w.Change; c != nil && w.Reason == Changed {
		r.Changed = &Place{partNames[c.Part], c.Message, c.To, c.From, c.Until}
	}
	return r
}
