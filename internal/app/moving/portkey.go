package moving

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// likePortkey reports whether the source is a gateway configuration of Portkey.
func likePortkey(root *value) bool {
	return root.is(isMapping) && (root.get("strategy") != nil || root.get("targets") != nil || root.get("virtual_key") != nil ||
		root.get("override_params") != nil || root.get("provider").is(isText) && root.get("model") == nil)
}

// portkey reads a configuration of Portkey: a tree of targets.
type portkey struct {
	*draft
	main string // the id of the model that the configuration stands for
}

// readPortkey makes one model of a configuration. Targets that share load become targets of the model. Those that follow
// one another become models of their own, which are its fallbacks.
func readPortkey(root *value, d *draft, o *Options) error {
	p := &portkey{draft: d, main: modelID(cmp.Or(o.Model, firstModel(root)))}
	if p.main == "" {
		return fmt.Errorf("the configuration names no model (override_params.model); say which one its callers use, with --model ID")
	}
	d.open = true
	d.notes = append(d.notes, "Keys of callers are not part of a Portkey configuration: create them with \"sluice key create\".")
	p.read(root, p.main, 1, false)
	return nil
}

// firstModel returns the first model that a configuration names.
func firstModel(v *value) string {
	if m := v.at("override_params", "model"); m.given() {
		_, name := portkeyModel(m.text)
		return name
	}
	for _, t := range v.get("targets").list() {
		if name := firstModel(t); name != "" {
			return name
		}
	}
	return ""
}

// portkeyModel splits @slug/model, as configurations with a model catalog write it.
func portkeyModel(text string) (slug, name string) {
	if rest, ok := strings.CutPrefix(text, "@"); ok {
		slug, name, _ = strings.Cut(rest, "/")
		return slug, name
	}
	return "", text
}

// read adds what a target leads to to the model with an id.
func (p *portkey) read(v *value, id string, share float64, spare bool) {
	targets := v.get("targets").list()
	if len(targets) == 0 {
		p.leaf(v, id, share, spare)
		return
	}
	mode := v.at("strategy", "mode")
	switch mode.String() {
	case "fallback":
		mode.changed("the targets after the first are models of their own, which are fallbacks")
		p.chain(targets, id, share, spare)
	case "conditional":
		mode.dropped("there are no conditions on requests; callers name the model, and each target is one")
		for i, t := range targets {
			name := t.get("name")
			name.taken("the id of the model")
			p.read(t, modelID(cmp.Or(name.String(), id+"-"+strconv.Itoa(i+1))), 1, false)
		}
	default:
		mode.taken("targets of the model, by weight")
		for _, t := range targets {
			w, ok := t.get("weight").number()
			if !ok {
				w = 1
			}
			t.get("weight").changed("weight of the target, as a whole number")
			p.read(t, id, share*w, spare || ok && w == 0)
		}
	}
}

// chain reads targets that are tried one after the other.
func (p *portkey) chain(targets []*value, id string, share float64, spare bool) {
	if spare || id != p.main || share != 1 {
		for i, t := range targets { // inside of another strategy there are no models of their own
			p.read(t, id, share, spare || i > 0)
		}
		return
	}
	p.read(targets[0], id, 1, false)
	m := p.model(id)
	for i, t := range targets[1:] {
		_, name := portkeyModel(t.at("override_params", "model").String())
		next := modelID(cmp.Or(name, id+"-fallback-"+strconv.Itoa(i+1)))
		if next == id {
			next = id + "-fallback-" + strconv.Itoa(i+1)
		}
		p.read(t, next, 1, false)
		m.fallbacks, m.fallbackOf = append(m.fallbacks, next), append(m.fallbackOf, nil)
	}
}

// leaf adds one upstream.
func (p *portkey) leaf(v *value, id string, share float64, spare bool) {
	named := v.at("override_params", "model")
	slugOfModel, upstream := portkeyModel(named.String())
	virtual := v.get("virtual_key")
	name := strings.TrimPrefix(cmp.Or(v.get("provider").String(), slugOfModel, virtual.String()), "@")
	ven := vendorNamed(name)
	if ven == nil {
		ven = vendorBySlug(name)
	}
	if ven == nil || ven.kind == "" {
		v.dropped("the vendor of this target is not known, or has no adapter: " + noAdapter)
		return
	}
	pr := &provider{kind: ven.kind, baseURL: ven.base}
	v.get("provider").taken("kind of the provider")
	virtual.changed("keys in Portkey's vault cannot be exported; set the variable that the provider refers to")
	p.readHost(pr, v)
	p.readKeys(pr, v, ven, name)
	named.taken("upstream")
	if t, ok := v.get("request_timeout").number(); ok && t > 0 {
		pr.firstContent = firstContent(t / 1000)
		v.get("request_timeout").changed("timeouts.first_content of the provider, in seconds")
	}
	wanted := name
	if pr.baseURL != "" && pr.baseURL != ven.base {
		wanted = hostName(ven.kind, pr.baseURL)
	}
	m := p.model(id)
	m.embedding = m.embedding || isEmbedding(upstream)
	weight := min(max(int(math.Round(share*1000)), 1), 1_000_000)
	m.addTarget(target{to: p.provider(pr, wanted), upstream: cmp.Or(upstream, id), weight: weight, spare: spare})
}

// vendorBySlug guesses a vendor from the name that somebody gave a virtual key, such as openai-prod-1a2b3c.
func vendorBySlug(name string) *vendor {
	for ; name != ""; name = name[:max(strings.LastIndexAny(name, "-_"), 0)] {
		if v := vendorNamed(name); v != nil {
			return v
		}
	}
	return nil
}

// readHost reads the address of a target.
func (p *portkey) readHost(pr *provider, v *value) {
	if host := v.get("custom_host"); host.given() && isAddress(plain(host.text)) {
		pr.baseURL = plain(host.text)
		host.taken("base_url")
	}
	if pr.kind != "azure" {
		return
	}
	if name := v.get("resource_name"); name.given() {
		pr.baseURL = "https://" + slug(name.text) + ".openai.azure.com"
		name.changed("base_url")
	}
	if version := v.get("api_version"); version.given() {
		pr.apiVersion = plain(version.text)
		version.taken("api_version")
	}
	if pr.baseURL == "" {
		pr.baseURL = p.reference("AZURE_API_BASE")
		p.need("providers.azure.base_url", "the address of the Azure resource is in Portkey's vault; set AZURE_API_BASE")
	}
}

// readKeys reads the keys of a target.
func (p *portkey) readKeys(pr *provider, v *value, ven *vendor, name string) {
	if pr.kind == "bedrock" {
		pr.region, pr.accessKeyID, pr.secretAccessKey = p.reference("AWS_REGION"), p.reference("AWS_ACCESS_KEY_ID"), p.reference("AWS_SECRET_ACCESS_KEY")
		for key, to := range map[string]*string{"aws_access_key_id": &pr.accessKeyID, "aws_secret_access_key": &pr.secretAccessKey, "aws_session_token": &pr.sessionKey} {
			if k := v.get(key); k.given() {
				*to = p.secret(k, strings.ToUpper(key)+"_IMPORTED")
			}
		}
		if r := v.get("aws_region"); r.given() && isRegion(r.text) {
			pr.region = plain(r.text)
			r.taken("region")
		}
		return
	}
	variable := strings.ToUpper(strings.ReplaceAll(slug(name), "-", "_")) + "_API_KEY"
	switch key := v.get("api_key"); {
	case key.given():
		pr.keys = []string{p.secret(key, cmp.Or(ven.key, variable))}
	case isName(variable) && (ven.key != "" || v.get("virtual_key").given()):
		pr.keys = []string{p.reference(variable)}
		p.need("providers."+slug(name)+".api_key", "the key is in Portkey's vault; set the variable %s to it", variable)
	}
}

var portkeyAdvice = []advice{
	{"", "this setting is not known to the converter; see docs/configuration.md for what can be set"},
	{"cache", noCache},
	{"targets[].cache", noCache},
	{"retry", noRetries},
	{"targets[].retry", noRetries},
	{"strategy.on_status_codes", "the next target is tried after every failure that the caller did not cause (docs/providers/routing.md)"},
	{"targets[].strategy.on_status_codes", "the next target is tried after every failure that the caller did not cause (docs/providers/routing.md)"},
	{"targets[].on_status_codes", "the next target is tried after every failure that the caller did not cause (docs/providers/routing.md)"},
	{"strategy.conditions", "there are no conditions on requests; callers name the model"},
	{"strategy.default", "there are no conditions on requests; callers name the model"},
	{"override_params", noDefaults},
	{"targets[].override_params", noDefaults},
	{"targets[].targets[].override_params", noDefaults},
	{"request_timeout", "set timeouts of the providers"},
	{"input_guardrails", noGuardrails},
	{"output_guardrails", noGuardrails},
	{"before_request_hooks", noGuardrails},
	{"after_request_hooks", noGuardrails},
	{"forward_headers", "headers of callers never reach a provider"},
	{"targets[].forward_headers", "headers of callers never reach a provider"},
	{"metadata", noTags},
	{"name", "it only names the configuration"},
	{"targets[].name", "it only names the target"},
	{"strict_open_ai_compliance", builtIn},
}
