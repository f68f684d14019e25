package moving

import (
	"cmp"
	"net/url"
	"strings"

	"sluice/internal/app/config"
)

// buildProvider makes the provider of a deployment, and reads what concerns it.
func (r *liteLLM) buildProvider(d *deployment, name string) {
	params := d.params
	if ref := params.get("litellm_credential_name"); ref.given() {
		params = r.withCredential(d, ref)
	}
	p := &provider{kind: d.vendor.kind, baseURL: d.vendor.base}
	base := params.get("api_base")
	if !base.given() {
		base = params.get("base_url")
	}
	if base.given() {
		r.readBase(p, base)
	}
	r.readCredentials(p, params, d)
	wanted := cmp.Or(strings.TrimSuffix(name, "/*"), p.kind)
	if !strings.HasSuffix(name, "/*") {
		wanted = d.vendorName
		if base.given() {
			wanted = hostName(p.kind, p.baseURL)
		}
		if v := vendorNamed(wanted); v != nil && v.base == "" {
			wanted = v.kind
		}
	}
	d.provider = r.provider(p, wanted)
	r.readPace(d, params)
}

// withCredential returns the parameters of a deployment with those of its credential.
func (r *liteLLM) withCredential(d *deployment, ref *value) *value {
	c := r.credentials[ref.String()]
	values := c.get("credential_values")
	if values == nil {
		ref.dropped("credential_list has no credential with this name; add the key of the provider by hand")
		return d.params
	}
	ref.taken("the key of the provider")
	c.get("credential_name").taken("the key of the provider")
	c.get("credential_info").dropped("it only describes the credential")
	both := &value{path: d.params.path, form: isMapping, fields: map[string]*value{}}
	for _, from := range []*value{values, d.params} {
		for _, k := range from.keys {
			both.fields[k] = from.fields[k]
		}
	}
	return both
}

// readBase reads the address of a provider.
func (r *liteLLM) readBase(p *provider, base *value) {
	p.baseURL = plain(base.text)
	env, isVariable := variable(base.text)
	if value := r.variables[env]; isVariable && value.given() && r.options.WithSecrets {
		p.baseURL, isVariable = plain(value.text), false
	}
	trimmed := strings.TrimRight(p.baseURL, "/")
	switch {
	case p.kind == "ollama" && !strings.HasSuffix(trimmed, "/v1"):
		p.baseURL = trimmed + "/v1"
		base.changed("Ollama is called by its OpenAI-compatible API, below /v1")
	case !isVariable && !isAddress(p.baseURL):
		p.baseURL = r.reference(strings.ToUpper(p.kind) + "_BASE_URL")
		base.dropped("it is not the address of a server; set the variable that base_url refers to")
	case isVariable:
		base.taken("base_url, as ${" + env + "}")
	default:
		base.taken("base_url")
	}
}

// isAddress reports whether a text is an address that our configuration takes.
func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && !strings.ContainsAny(text, "?# \t\n") && !strings.Contains(text, "${")
}

// readCredentials reads keys, region and API version.
func (r *liteLLM) readCredentials(p *provider, params *value, d *deployment) {
	if v := params.get("api_version"); v.given() && p.kind == "azure" {
		p.apiVersion = plain(v.text)
		v.taken("api_version")
	}
	if p.kind == "bedrock" {
		r.readAWS(p, params)
		return
	}
	own := p.baseURL != "" && p.baseURL != d.vendor.base // a server of one's own
	if p.kind == "azure" && p.baseURL == "" {
		p.baseURL, own = r.reference("AZURE_API_BASE"), false
		p.comment = "LiteLLM reads the address from this variable, too"
	}
	if p.baseURL == "" && config.Address(p.kind) == "" || d.vendor.names == vendorNamed("openai_like").names && p.baseURL == "" {
		p.baseURL = r.reference(strings.ToUpper(d.vendorName) + "_API_BASE")
		own = true
		r.need("providers."+slug(d.vendorName)+".base_url", "the source does not name the address of the server; set %s", p.baseURL)
	}
	key := params.get("api_key")
	if env, ok := variable(key.String()); ok && r.variables[env].given() && r.options.WithSecrets {
		key.taken("in clear, from environment_variables")
		p.keys = []string{plain(r.variables[env].text)}
		return
	}
	switch {
	case key.given():
		p.keys = []string{r.secret(key, keyName(p, d, own))}
	case d.vendor.key != "" && (!own || p.kind == "azure"):
		p.keys = []string{r.reference(d.vendor.key)}
		p.comment = "the key is read from the variable that LiteLLM reads, too"
	}
}

// keyName returns the variable for a key that stands in clear. own says that the provider is a server of one's own.
func keyName(p *provider, d *deployment, own bool) string {
	name := cmp.Or(d.vendor.key, strings.ToUpper(strings.ReplaceAll(slug(d.vendorName), "-", "_"))+"_API_KEY")
	if own && p.kind != "azure" {
		name = strings.ToUpper(strings.ReplaceAll(cmp.Or(slug(hostName(p.kind, p.baseURL)), p.kind), "-", "_")) + "_KEY"
	}
	if !isName(name) {
		name = "KEY_" + name
	}
	return name
}

// readAWS reads the region and the key of Amazon Bedrock.
func (r *liteLLM) readAWS(p *provider, params *value) {
	p.region = r.reference("AWS_REGION")
	if v := params.get("aws_region_name"); v.given() && isRegion(v.text) {
		p.region = plain(v.text)
		v.taken("region")
	}
	p.accessKeyID, p.secretAccessKey = r.reference("AWS_ACCESS_KEY_ID"), r.reference("AWS_SECRET_ACCESS_KEY")
	if v := params.get("aws_access_key_id"); v.given() {
		p.accessKeyID = r.secret(v, "AWS_ACCESS_KEY_ID_IMPORTED")
	}
	if v := params.get("aws_secret_access_key"); v.given() {
		p.secretAccessKey = r.secret(v, "AWS_SECRET_ACCESS_KEY_IMPORTED")
	} else {
		p.comment = "Bedrock needs an access key here; roles and profiles of AWS are not read"
	}
	if v := params.get("aws_session_token"); v.given() {
		p.sessionKey = r.secret(v, "AWS_SESSION_TOKEN_IMPORTED")
	}
	if v := params.get("aws_bedrock_runtime_endpoint"); v.given() && isAddress(plain(v.text)) {
		p.baseURL = plain(v.text)
		v.taken("base_url")
	}
}

// pace returns a figure of a deployment, which stands among its parameters or beside them.
func (d *deployment) pace(key string) *value {
	if v := d.params.get(key); v.given() {
		return v
	}
	return d.at.get(key)
}

// weigh sets the weights of the deployments of one model by the figure that the first of them has, as LiteLLM does: weight,
// requests or tokens per minute. One that lacks it gets no calls while there are others.
func weigh(all []*deployment) {
	metric := ""
	for _, key := range []string{"tpm", "rpm", "weight"} {
		if _, ok := all[0].pace(key).number(); ok && len(all) > 1 {
			metric = key
		}
	}
	for _, d := range all {
		d.weight = 1
		n, _ := d.pace(metric).number()
		switch {
		case metric == "weight":
			d.weight = n * 1000
			d.pace(metric).changed("weight of the target, as a whole number")
		case metric != "":
			d.weight = n
			d.pace(metric).changed("weight of the target; " + noLimitThere)
		}
		for _, key := range []string{"weight", "rpm", "tpm"} {
			d.params.get(key).dropped(noLimitThere)
			d.at.get(key).dropped(noLimitThere)
		}
	}
}

const noLimitThere = "there is no limit per minute at an upstream: a key that answers 429 is paused, and the others go on"

// isRegion reports whether a text can be a region, or names a variable.
func isRegion(text string) bool { return variableOnly(text) || slug(text) == text }

// readPace reads the order, the limits and the timeouts of a deployment.
func (r *liteLLM) readPace(d *deployment, params *value) {
	if v := params.get("order"); v.given() {
		d.order, _ = v.number()
		v.changed("targets with the lowest order have a weight, and the others 0: they are used only while none of those is available")
	}
	if v := params.get("max_parallel_requests"); v.whole() > 0 {
		d.provider.maxConcurrent += min(v.whole(), 1_000_000)
		v.changed("max_concurrent of the provider: the sum of its deployments")
	}
	r.readTimeout(d.provider, params.get("stream_timeout"), params.get("timeout"))
}

// readTimeout sets the timeout of a provider: the longest of its deployments. stream wins over whole.
func (r *liteLLM) readTimeout(p *provider, stream, whole *value) {
	for _, v := range []*value{stream, whole} {
		n, ok := v.number()
		if !ok || n == 0 {
			continue
		}
		p.firstContent = max(p.firstContent, firstContent(n))
		stream.changed("timeouts.first_content of the provider: whole seconds, from 1s to 5m, the longest of its models")
		whole.changed("timeouts.first_content of the provider: whole seconds, from 1s to 5m, the longest of its models; the time of a whole reply is not limited")
		return
	}
}

// readInfo reads what a deployment says about its model.
func (r *liteLLM) readInfo(m *model, d *deployment) {
	info := d.info
	if v := info.get("mode"); v.given() {
		m.embedding = m.embedding || v.text == "embedding"
		v.taken("kind of the model")
	} else if isEmbedding(d.upstream) {
		m.embedding = true
	}
	if v := info.get("base_model"); v.given() {
		_, m.hint = splitModel(v.text, nil)
		v.changed("used to look up what is known of the model")
	}
	for key, to := range map[string]*int{"max_input_tokens": &m.context, "max_output_tokens": &m.maxOutput} {
		if v := info.get(key); v.whole() > 0 && v.whole() <= 1<<30 {
			*to = max(*to, v.whole())
			v.taken("context_length and max_output")
		}
	}
	if v := info.get("max_tokens"); v.whole() > 0 && v.whole() <= 1<<30 {
		fill(&m.maxOutput, v.whole())
		v.taken("max_output")
	}
	for key, to := range map[string]**bool{"supports_function_calling": &m.tools, "supports_reasoning": &m.reasons, "supports_response_schema": &m.json} {
		if v := info.get(key); v.given() {
			b := v.yes()
			*to = &b
			v.taken("tool_calling, reasoning, json_mode")
		}
	}
	if v := info.get("description"); v.given() && m.description == "" {
		m.description = plain(v.text)
		v.taken("description")
	}
	r.readPrices(m, d)
}

// readPrices reads prices, which are for one token there and for a million here.
func (r *liteLLM) readPrices(m *model, d *deployment) {
	for _, price := range []struct {
		key string
		to  **int64
	}{
		{"input_cost_per_token", &m.input},
		{"output_cost_per_token", &m.output},
		{"cache_read_input_token_cost", &m.cached},
		{"output_cost_per_reasoning_token", &m.reasoning},
	} {
		for _, at := range []*value{d.info, d.params} {
			v := at.get(price.key)
			n, ok := v.number()
			if !ok || n > 0.01 { // a cent for a token is not a price
				continue
			}
			micro := int64(n*1e12 + 0.5)
			*price.to = &micro
			v.changed("pricing, for a million tokens")
		}
	}
}
