package moving

// readRouter reads fallbacks and aliases.
func (r *liteLLM) readRouter(root *value) {
	for _, section := range []*value{root.get("router_settings"), root.get("litellm_settings")} {
		for _, entry := range section.get("fallbacks").list() {
			for _, name := range entry.keyList() {
				r.readFallbacks(name, entry.get(name))
			}
		}
		for _, v := range section.get("default_fallbacks").list() {
			for _, m := range r.models {
				if modelID(v.String()) != m.id {
					m.fallbacks, m.fallbackOf = append(m.fallbacks, modelID(v.String())), append(m.fallbackOf, v)
				}
			}
		}
		for _, key := range []string{"model_group_alias", "model_alias_map"} {
			aliases := section.get(key)
			for _, name := range aliases.keyList() {
				r.readAlias(name, aliases.get(name))
			}
		}
	}
}

// readFallbacks reads the fallbacks of one model.
func (r *liteLLM) readFallbacks(name string, list *value) {
	if name == "*" {
		list.dropped("there are no fallbacks for all models; add them to each model that needs them")
		return
	}
	if !r.has(modelID(name)) {
		list.dropped("it is for a model that was not converted")
		return
	}
	m := r.model(r.resolve(modelID(name)))
	for _, v := range list.list() {
		if !v.given() {
			v.dropped("a fallback with parameters of its own has no counterpart; write the id of a model")
			continue
		}
		m.fallbacks, m.fallbackOf = append(m.fallbacks, modelID(v.text)), append(m.fallbackOf, v)
	}
}

// readAlias reads another name of a model.
func (r *liteLLM) readAlias(name string, v *value) {
	to := v
	if v.is(isMapping) {
		to = v.get("model")
		v.get("hidden").dropped("aliases are never listed in GET /v1/models")
	}
	if !to.given() || name == "" {
		return
	}
	r.aliases[modelID(name)], r.aliased[modelID(name)] = modelID(to.text), to
}

// readTimeouts reads timeouts for all providers.
func (r *liteLLM) readTimeouts(root *value) {
	stream, whole := root.at("router_settings", "stream_timeout"), root.at("router_settings", "timeout")
	if !whole.given() {
		whole = root.at("litellm_settings", "request_timeout")
	}
	if n, ok := whole.number(); ok && n >= 300 && !stream.given() {
		whole.changed("the defaults hold: 2 minutes for the first content of a stream, 5 for other replies (docs/providers/routing.md#timeouts)")
		return
	}
	for _, p := range r.providers {
		if p.firstContent == 0 {
			r.readTimeout(p, stream, whole)
		}
	}
}
