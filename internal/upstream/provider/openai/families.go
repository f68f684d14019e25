package openai

import (
	"strings"

	"sluice/internal/prompt/chat"
)

// family is what is known of a family of OpenAI's models, by the beginning of their names.
type family struct {
	name    string
	efforts []chat.Effort
}

// families are OpenAI's models, the longer names before the shorter ones. A model that is not in the list is newer than it,
// and gets what its caller asks for (developers.openai.com/api/docs/guides/latest-model).
var families = []family{
	{"gpt-6-astra", []chat.Effort{chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortXHigh, chat.EffortMax}},
	{"gpt-6.1", []chat.Effort{chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortXHigh, chat.EffortMax}},
	{"gpt-6", []chat.Effort{chat.EffortNone, chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortXHigh, chat.EffortMax}},
	{"gpt-5.6", []chat.Effort{chat.EffortNone, chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortXHigh, chat.EffortMax}},
	{"gpt-5.1", least},
	{"gpt-5.", []chat.Effort{chat.EffortNone, chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortXHigh}},
	{"gpt-5", usual[1:]},
	{"gpt-oss", least[1:]},
	{"o1", least[1:]},
	{"o3", least[1:]},
	{"o4", least[1:]},
}

// familyOf returns the family of a model; the zero family if none is known. On Bedrock its name begins with the vendor's.
func familyOf(model string) family {
	model = strings.TrimPrefix(model, "openai.")
	for _, f := range families {
		if strings.HasPrefix(model, f.name) {
			return f
		}
	}
	return family{}
}

// effortsOf returns the efforts that a model of the vendor takes; nil if that is not known.
func (p *Preset) effortsOf(model string) []chat.Effort {
	if p.Kind == "openai" || p.Kind == "azure" {
		return familyOf(model).efforts
	}
	return p.efforts
}
