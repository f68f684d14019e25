package config

import "time"

// Model is one entry of the catalog.
type Model struct {
	// The model id that callers use. It must not contain spaces and must not be the id of the
	// router.
	ID string `yaml:"id" required:"true"`

	// The name of the provider that serves it. Required if `targets` is empty.
	Provider string `yaml:"provider"`

	// The provider's own name for the model. The default is `id`.
	Upstream string `yaml:"upstream"`

	// The providers that serve the model, if there are several. Replaces `provider` and
	// `upstream`.
	Targets []Target `yaml:"targets"`

	// The ids of models to use, in this order, while no target of this model is available.
	// Models that the caller's plan does not include, or that cannot handle the request, are
	// skipped.
	Fallbacks []string `yaml:"fallbacks"`

	// What the model is for: `chat`, or `embedding` for a model that turns texts into vectors and
	// is called with `POST /v1/embeddings`.
	Kind string `yaml:"kind" default:"chat"`

	// The lowest plan that may call the model: `free`, `basic` or `premium`.
	Plan string `yaml:"plan" required:"true"`

	// How many requests of the per-minute limit one call counts as.
	RequestMultiplier Milli `yaml:"request_multiplier" default:"1"`

	// How many units of the monthly budget one call uses. The default is `request_multiplier`.
	UnitCost *Milli `yaml:"unit_cost"`

	// The context window, in tokens. Of an embedding model the longest input.
	ContextLength int `yaml:"context_length" required:"true"`

	// The maximum length of a reply, in tokens. At most `context_length`. An embedding model has
	// none.
	MaxOutput int `yaml:"max_output" required:"chat"`

	// Whether the model supports tool calling.
	ToolCalling bool `yaml:"tool_calling" default:"false"`

	// Whether the model supports JSON output. The router sends requests for JSON only to
	// models that do.
	JSONMode bool `yaml:"json_mode" default:"true"`

	// The quality of the model for the router, from 1 to 100. 0 means unknown: the router uses
	// what is known about the model, or the average of its tier.
	Quality int `yaml:"quality" default:"0"`

	// Whether the model supports reasoning. For other models, `reasoning_effort` is removed
	// from the request.
	Reasoning bool `yaml:"reasoning" default:"false"`

	// The values of `reasoning_effort` that the model takes, from `none`, `minimal`, `low`,
	// `medium`, `high`, `xhigh` and `max`. Another value of a caller becomes the nearest of them.
	// The default is what is known about the model.
	Efforts []string `yaml:"efforts"`

	// Whether a conversation goes to the same target at every call, so that its prompt cache stays warm:
	// `prefix`, by its session id, or else by its first messages; `session`, only if it has a session
	// id; or `off`. The default is `prefix` where tokens that are read from a cache have a lower price
	// or a target is a server of your own (`vllm`, `llamacpp`, `lmstudio`, `ollama`), else `off`.
	Affinity string `yaml:"affinity"`

	// What callers of this model may choose although you pay for it, in addition to the `allow`
	// of its providers: `all`, or a list of names.
	Allow Allowed `yaml:"allow"`

	// One sentence about the model for the catalog.
	Description string `yaml:"description"`

	// The owner of the model for the catalog.
	OwnedBy string `yaml:"owned_by"`

	// The date that the catalog shows as `created`, such as `2026-03-01`. The default is the
	// day on which this service first listed the model.
	Created string `yaml:"created"`

	// The day on which its vendor ends the model, such as `2026-12-11`. The catalog shows it, replies
	// have it in the header `Sunset`, and `sluice doctor` warns before it comes. The default is what
	// the provider's list says, or what is known about the model.
	ShutdownDate string `yaml:"shutdown_date"`

	// The prices of its tokens, in dollars per million tokens with at most 6 decimals. `prices` has
	// more conditions, and precedence.
	Pricing *Pricing `yaml:"pricing"`
}

// CreatedAt returns the configured date of creation, or the zero time if there is none.
func (m *Model) CreatedAt() (time.Time, error) { return day(m.Created) }

// ShutdownAt returns the configured day on which the model ends, or the zero time if there is none.
func (m *Model) ShutdownAt() (time.Time, error) { return day(m.ShutdownDate) }

// day reads a day, or nothing.
func day(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, s)
}

// Target is one provider that serves a model.
type Target struct {
	// The name of the provider.
	Provider string `yaml:"provider" required:"true"`

	// The provider's own name for the model. The default is the model's `id`.
	Upstream string `yaml:"upstream"`

	// The share of calls that go to this target, relative to the weights of the other targets; with
	// `affinity` the share of conversations.
	// A target with weight 0 is used only while no other is available.
	Weight int `yaml:"weight" default:"1"`
}

// Pricing is in dollars per million tokens. A nil price is unknown, which is not the same as
// free.
type Pricing struct {
	// Dollars per million input tokens.
	Input *Money `yaml:"input"`

	// Dollars per million output tokens.
	Output *Money `yaml:"output"`

	// Dollars per million input tokens that the provider had cached. The default is `input`, which
	// is also the price of tokens that are written to a cache.
	Cached *Money `yaml:"cached"`

	// Dollars per million reasoning tokens.
	Reasoning *Money `yaml:"reasoning"`
}
