package openai

import (
	"strings"

	"sluice/internal/prompt/chat"
)

// family is what is known of a family of OpenAI's models, by the beginning of their names.
type family struct {
	name    string
	tools   tooling
	efforts []chat.Effort
}

// tooling says by which API a family takes tools.
type tooling uint8

const (
	anyAPI          tooling = iota // by both
	newerForEffort                 // by Responses only, if an effort other than none is asked for
	newerUnlessNone                // by Responses only, unless the effort none is asked for
	newerAlways                    // by Responses only
	neverNewer                     // the family is not served by Responses at all
)

// The efforts of families that have more than the usual ones.
var (
	toXHigh = []chat.Effort{chat.EffortNone, chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortXHigh}
	toMax   = append(toXHigh[:len(toXHigh):len(toXHigh)], chat.EffortMax)
)

// families are OpenAI's models, the longer names before the shorter ones. A model that is not in the list is newer than it,
// and gets what its caller asks for; by which API it takes tools is learned from its vendor, see Ways.
//
// The efforts and the APIs of GPT-5.6 and GPT-6 are in developers.openai.com/api/docs/guides/latest-model, those of GPT-5.4 in
// github.com/openai/openai-openapi/issues/541. Which models Responses does not serve is said on the page of each below
// developers.openai.com/api/docs/models.
var families = []family{
	{"gpt-6-astra", newerAlways, toMax[1:]},
	{"gpt-6.1", newerAlways, toMax[1:]},
	{"gpt-6", newerUnlessNone, toMax},
	{"gpt-5.6", newerUnlessNone, toMax},
	{"gpt-5.5", newerForEffort, toXHigh},
	{"gpt-5.4", newerForEffort, toXHigh},
	{"gpt-5.1", anyAPI, least},
	{"gpt-5.", anyAPI, toXHigh},
	{"gpt-5-search", neverNewer, nil},
	{"gpt-5", anyAPI, usual[1:]},
	{"gpt-4o-audio", neverNewer, nil},
	{"gpt-4o-mini-audio", neverNewer, nil},
	{"gpt-4o-search", neverNewer, nil},
	{"gpt-4o-mini-search", neverNewer, nil},
	{"gpt-audio", neverNewer, nil},
	{"gpt-oss", anyAPI, least[1:]},
	{"o1", anyAPI, least[1:]},
	{"o3", anyAPI, least[1:]},
	{"o4", anyAPI, least[1:]},
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

// needsResponses reports whether the family takes tools only by Responses if this effort is asked for; an empty one is
// the model's default.
func (f *family) needsResponses(effort chat.Effort) bool {
	switch f.tools {
	case newerForEffort:
		return effort != "" && effort != chat.EffortNone
	case newerUnlessNone:
		return effort != chat.EffortNone
	}
	return f.tools == newerAlways
}

// marks reports whether the family takes marks for the cache, as GPT-5.6 and its successors do
// (developers.openai.com/api/docs/guides/prompt-caching). An unknown model may refuse them.
func (f *family) marks() bool { return f.tools == newerUnlessNone || f.tools == newerAlways }

// effortsOf returns the efforts that a model of the vendor takes; nil if that is not known.
func (p *Preset) effortsOf(model string) []chat.Effort {
	if p.Kind == "openai" || p.Kind == "azure" {
		return familyOf(model).efforts
	}
	return p.efforts
}
