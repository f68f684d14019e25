package provider

import "time"

// Listed is a model as its upstream lists it. Fields that the upstream does not give are zero.
type Listed struct {
	ID            string    // the name to call it by
	Name          string    // the name to show to people
	ContextLength int       // tokens
	MaxOutput     int       // tokens
	Embeds        bool      // it makes embeddings and takes no part in chat completions
	Shutdown      time.Time // the day on which the vendor ends it
}
