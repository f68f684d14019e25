package provider

// Listed is a model as its upstream lists it. What the upstream does not say is zero.
type Listed struct {
	ID            string // the model's name over there
	Name          string // what it is called in front of people
	ContextLength int    // tokens
	MaxOutput     int    // tokens
}
