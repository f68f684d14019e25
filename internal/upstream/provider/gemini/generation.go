package gemini

import (
	"encoding/json"
	"math"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// generation has the settings of a reply. Nil and zero leave a setting to the model's default, so every field is
// omitted when it is empty.
type generation struct {
	// CandidateCount is left out for one reply, the default.
	CandidateCount   int      `json:"candidateCount,omitempty"`
	MaxOutputTokens  int      `json:"maxOutputTokens,omitempty"`
	Temperature      *float64 `json:"temperature,omitempty"`
	TopP             *float64 `json:"topP,omitempty"`
	Seed             *int64   `json:"seed,omitempty"`
	PresencePenalty  *float64 `json:"presencePenalty,omitempty"`
	FrequencyPenalty *float64 `json:"frequencyPenalty,omitempty"`
	StopSequences    []string `json:"stopSequences,omitempty"`
	// ResponseMIMEType is application/json or empty. ResponseJSONSchema needs it.
	ResponseMIMEType   string          `json:"responseMimeType,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
	ThinkingConfig     *thinkingConfig `json:"thinkingConfig,omitempty"`
}

// thinkingConfig says how much the model thinks: by a budget up to Gemini 2.5, by a level from Gemini 3 on.
type thinkingConfig struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"` // summaries of the thoughts come with the reply
	ThinkingBudget  *int   `json:"thinkingBudget,omitempty"`  // in tokens; 0 turns thinking off
	ThinkingLevel   string `json:"thinkingLevel,omitempty"`
}

// toolbox is the one entry of tools that has all functions.
type toolbox struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

// declaration is a function that the model may call. A nil schema is for a function without arguments.
type declaration struct {
	Name                 string          `json:"name"`
	Description          string          `json:"description,omitempty"`
	ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

// toolConfig says how free the model is to call functions: AUTO, NONE, or ANY of some of them.
type toolConfig struct {
	FunctionCallingConfig struct {
		Mode                 string   `json:"mode"`
		AllowedFunctionNames []string `json:"allowedFunctionNames,omitempty"`
	} `json:"functionCallingConfig"`
}

// The bounds of the vendor. They are checked here so that the caller learns which field is wrong: Google's own
// message would name a field of its API.
const (
	maxStops      = 5 // stop sequences
	maxCandidates = 8 // replies to one request
)

// configure translates everything but the messages. A field that would only make the reply a little different is
// dropped and named in x-sluice-dropped; one that would change what the caller can do with it is refused
// (docs/api.md#chat-completion-request).
//
// Tools come first, because format must know whether there are any.
func (t *translation) configure() error {
	req := t.call.Request
	if err := t.tools(); err != nil {
		return err
	}
	if err := t.format(); err != nil {
		return err
	}
	g := &t.out.GenerationConfig
	switch { // what would change the answer is refused, not dropped
	case len(req.Stop) > maxStops:
		return fault.New(fault.Invalid, "This model accepts at most %d stop sequences; got %d.", maxStops, len(req.Stop)).At("stop")
	case req.N > 1 && req.Stream:
		return fault.New(fault.Invalid, "This model streams one reply to a request; n must be 1, or stream false.").At("n")
	case req.N > maxCandidates:
		return fault.New(fault.Invalid, "This model returns at most %d replies to a request; got n = %d.", maxCandidates, req.N).At("n")
	case req.N > 1:
		g.CandidateCount = req.N
	}
	// The ranges of temperature and top_p are those of our API.
	g.StopSequences = req.Stop
	// The caller's max_tokens, lowered to what the model can write.
	g.MaxOutputTokens = t.call.Limit()
	g.Temperature, g.TopP = req.Temperature, req.TopP
	if req.Seed != nil && int64(int32(*req.Seed)) == *req.Seed {
		g.Seed = req.Seed
	} else {
		t.call.Drop("seed") // it does not fit into the 32 bits of the vendor's field
	}
	t.penalties()
	g.ThinkingConfig = t.thinking()
	return nil
}

// penalties translates the two penalties, and drops them for models that think, which refuse them.
func (t *translation) penalties() {
	if t.call.Thinks {
		t.call.Drop("presence_penalty", "frequency_penalty")
		return
	}
	g := &t.out.GenerationConfig
	g.PresencePenalty, g.FrequencyPenalty = belowTwo(t.call.Request.PresencePenalty), belowTwo(t.call.Request.FrequencyPenalty)
}

// belowTwo returns a penalty within the vendor's range, which excludes 2 where ours includes it. The nearest value
// is one of 32 bits, since the vendor reads the number as such. The result is p itself unless it must change.
func belowTwo(p *float64) *float64 {
	if p == nil || *p < 2 {
		return p
	}
	most := math.Nextafter32(2, 0)
	v := float64(most)
	return &v
}

// tools lists the functions and says how free the model is to call them. strict is left out, because Gemini has no
// such setting.
func (t *translation) tools() error {
	req := t.call.Request
	var declared []declaration
	for _, tool := range req.ListedTools() {
		f := tool.Function
		if f == nil {
			continue // MCP servers: their tools have become functions before
		}
		if f.Strict {
			t.call.Omit("tools[].function.strict")
		}
		schema, err := parameters(f.Parameters)
		if err != nil {
			return err
		}
		declared = append(declared, declaration{Name: f.Name, Description: f.Description, ParametersJSONSchema: schema})
	}
	if declared == nil {
		return nil
	}
	t.out.Tools = []toolbox{{declared}}
	c := &t.out.ToolConfig.FunctionCallingConfig // left out for AUTO, the default
	switch req.ToolChoice.Mode {
	case chat.ChoiceNone:
		c.Mode = "NONE"
	case chat.ChoiceRequired:
		c.Mode = "ANY"
	case chat.ChoiceNamed:
		c.Mode, c.AllowedFunctionNames = "ANY", []string{req.ToolChoice.Name}
	}
	return nil
}

// format asks for JSON, with a schema if the request has one. Tools must be translated before.
func (t *translation) format() error {
	f := t.call.Request.Format
	if f.Kind == chat.FormatText {
		return nil
	}
	if len(t.out.Tools) > 0 && isOld(t.call.Upstream) {
		return fault.New(fault.Invalid, "This model cannot call tools and answer in JSON in one request. Leave tools or response_format out.").At("response_format")
	}
	g := &t.out.GenerationConfig
	g.ResponseMIMEType = "application/json"
	if f.Kind != chat.FormatJSONSchema || f.Schema == nil {
		return nil
	}
	// A schema that is not strict is sent as well: Gemini enforces every schema it gets.
	schema, err := subset(f.Schema)
	if err != nil {
		return err
	}
	g.ResponseJSONSchema = schema
	return nil
}

// isOld reports whether a model is of the first two generations. They think by a budget where later ones have
// levels, and cannot call tools and write JSON in one request. A name that is not Google's counts as new.
func isOld(model string) bool {
	return strings.HasPrefix(model, "gemini-1") || strings.HasPrefix(model, "gemini-2")
}

// budgets and levels translate reasoning_effort as Google's own OpenAI-compatible endpoint does. Budgets are in
// tokens.
var (
	budgets = map[chat.Effort]int{chat.EffortNone: 0, chat.EffortMinimal: 1024, chat.EffortLow: 1024, chat.EffortMedium: 8192, chat.EffortHigh: 24576}
	levels  = map[chat.Effort]string{chat.EffortMinimal: "MINIMAL", chat.EffortLow: "LOW", chat.EffortMedium: "MEDIUM", chat.EffortHigh: "HIGH"}
)

// effortsOf returns the efforts of a model. Old ones have a budget for each. Of the others, Pro models and, since 3.7, Flash
// refuse the lowest level; the first Pro of the third generation has two levels only. A name that is not known counts as
// new (ai.google.dev/gemini-api/docs/thinking).
func effortsOf(model string) []chat.Effort {
	all := []chat.Effort{chat.EffortNone, chat.EffortMinimal, chat.EffortLow, chat.EffortMedium, chat.EffortHigh}
	switch {
	case isOld(model):
		return all
	case strings.HasPrefix(model, "gemini-3-pro"):
		return []chat.Effort{chat.EffortLow, chat.EffortHigh}
	case strings.Contains(model, "-pro"):
		return all[2:]
	}
	for _, name := range []string{"gemini-3-", "gemini-3.1-", "gemini-3.5-", "gemini-3.6-"} {
		if strings.HasPrefix(model, name) {
			return all[1:]
		}
	}
	return all[2:]
}

// leastBudget is the smallest budget of Gemini 2.5 Pro, which always thinks, in tokens.
const leastBudget = 128

// thinking translates reasoning_effort and asks for summaries of the thoughts. For none, models that always think
// get the least there is, and their thoughts are not asked for. It returns nil for a model that does not think.
func (t *translation) thinking() *thinkingConfig {
	effort, model := t.call.Request.ReasoningEffort, t.call.Upstream
	if !t.call.Thinks {
		t.call.DropEffort()
		return nil
	}
	// Without an effort the model decides how much it thinks, and shows it.
	c := &thinkingConfig{IncludeThoughts: effort != chat.EffortNone}
	effort = t.call.Effort(effortsOf(model))
	switch {
	case effort == "":
	case isOld(model):
		// Pro models refuse a budget below their least, also the 0 that turns thinking off elsewhere.
		budget := budgets[effort]
		if strings.Contains(model, "-pro") {
			budget = max(budget, leastBudget)
		}
		c.ThinkingBudget = &budget
	default:
		c.ThinkingLevel = levels[effort]
	}
	return c
}
