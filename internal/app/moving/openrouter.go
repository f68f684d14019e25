package moving

import (
	"errors"
	"strings"
)

// likeOpenRouter reports whether the source is a list of models of OpenRouter, or a request to it.
func likeOpenRouter(root *value) bool {
	if all := rows(root); len(all) > 0 {
		id := all[0].get("id")
		if id == nil {
			id = all[0]
		}
		return id.given() && strings.Contains(id.text, "/")
	}
	if root.is(isText) {
		return strings.Contains(strings.SplitN(root.text, " ", 2)[0], "/") && !strings.Contains(root.text, "://")
	}
	return root.get("model").given() && strings.Contains(root.get("model").text, "/") || root.get("models").is(isList)
}

// readOpenRouter makes models of ids, of the reply of GET /api/v1/models, or of the body of a request.
func readOpenRouter(root *value, d *draft, _ *Options) error {
	d.open = true
	p := d.provider(&provider{kind: "openrouter", keys: []string{d.reference("OPENROUTER_API_KEY")}}, "openrouter")
	if root.is(isText) { // ids, one for each line
		for id := range strings.FieldsSeq(root.text) {
			d.model(modelID(id)).addTarget(target{to: p, upstream: id, weight: 1})
		}
		root.taken("models")
		return nil
	}
	all := rows(root)
	for _, v := range all {
		readListed(v, d, p)
	}
	if len(all) > 0 {
		return nil
	}
	return readRequest(root, d, p)
}

// readRequest makes models of the body of a request: the first one, with the others as fallbacks.
func readRequest(root *value, d *draft, p *provider) error {
	var main *model
	for _, v := range append(root.get("model").list(), root.get("models").list()...) {
		if !v.given() || main != nil && modelID(v.text) == main.id {
			v.dropped("it is empty or named twice")
			continue
		}
		m := d.model(modelID(v.text))
		m.addTarget(target{to: p, upstream: v.text, weight: 1})
		v.taken("models." + m.id)
		if main == nil {
			main = m
			continue
		}
		main.fallbacks, main.fallbackOf = append(main.fallbacks, m.id), append(main.fallbackOf, nil)
	}
	if main == nil {
		return errors.New("there are no ids of models; give a JSON list of ids, the reply of GET /api/v1/models, or the body of a request")
	}
	return nil
}

// readListed reads an id, or an entry of OpenRouter's list.
func readListed(v *value, d *draft, p *provider) {
	id := v
	if v.is(isMapping) {
		id = v.get("id")
	}
	if !id.given() {
		return
	}
	m := d.model(modelID(id.text))
	m.addTarget(target{to: p, upstream: id.text, weight: 1})
	id.taken("models." + m.id)
	for _, size := range []struct {
		from *value
		to   *int
	}{{v.get("context_length"), &m.context}, {v.at("top_provider", "max_completion_tokens"), &m.maxOutput}} {
		if n := size.from.whole(); n > 0 && n <= 1<<30 {
			*size.to = n
			size.from.taken("context_length and max_output")
		}
	}
	for key, to := range map[string]**int64{"prompt": &m.input, "completion": &m.output, "input_cache_read": &m.cached, "internal_reasoning": &m.reasoning} {
		if n, ok := v.at("pricing", key).number(); ok && n < 0.01 {
			micro := int64(n*1e12 + 0.5)
			*to = &micro
			v.at("pricing", key).changed("pricing, for a million tokens")
		}
	}
	readAbilities(v, m)
}

// readAbilities reads what a model of OpenRouter's list can do.
func readAbilities(v *value, m *model) {
	for _, name := range v.get("supported_parameters").list() {
		yes := true
		switch name.String() {
		case "tools":
			m.tools = &yes
			name.taken("tool_calling")
		case "reasoning":
			m.reasons = &yes
			name.taken("reasoning")
		}
	}
}

var openRouterAdvice = []advice{
	{"", "this has no counterpart in a configuration"},
	{"provider", "callers choose a vendor of OpenRouter with provider in their requests only if allow lists it; or add the vendor as a provider of its own, and targets with weights"},
	{"messages", "it is part of one request"},
	{"stream", "it is part of one request"},
	{"temperature", "it is part of one request"},
	{"max_tokens", "it is part of one request"},
	{"tools", "it is part of one request"},
	{"transforms", "prompts are never shortened; a prompt that is too long is refused"},
	{"plugins", "allow web_search of vendors with allow (docs/providers/fields.md#what-callers-may-choose)"},
	{"route", "fallbacks are part of the configuration"},
	{"preset", "there are no presets; callers send the parameters, and the configuration has models, fallbacks and aliases"},
	{"[]", "it is for OpenRouter's list only"},
}
