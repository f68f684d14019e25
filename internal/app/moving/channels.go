package moving

import (
	"cmp"
	"fmt"
	"strings"

	"sluice/internal/app/config"
)

// channelType is what a number in the column type of the channels of one-api and new-api stands for.
type channelType struct {
	vendor string // a name of vendorTable
	base   string // the address, if it is not that of the vendor
}

// sharedTypes are the numbers that both programs have in common.
var sharedTypes = map[int]channelType{
	1: {vendor: "openai"}, 3: {vendor: "azure"}, 8: {vendor: "openai_like"}, 14: {vendor: "anthropic"},
	15: {vendor: "baidu"}, 16: {vendor: "zhipu"}, 18: {vendor: "xunfei"}, 23: {vendor: "tencent_api"},
	17: {vendor: "dashscope", base: "https://dashscope.aliyuncs.com/compatible-mode/v1"},
	20: {vendor: "openrouter"}, 24: {vendor: "gemini"}, 25: {vendor: "moonshot", base: "https://api.moonshot.cn/v1"},
	33: {vendor: "bedrock"}, 40: {vendor: "siliconflow"},
}

var newAPITypes = map[int]channelType{
	4: {vendor: "ollama"}, 26: {vendor: "openai_like", base: "https://open.bigmodel.cn/api/paas/v4"}, 27: {vendor: "perplexity"},
	34: {vendor: "cohere"}, 35: {vendor: "minimax"}, 38: {vendor: "jina_ai"}, 41: {vendor: "vertex_ai"}, 42: {vendor: "mistral"},
	43: {vendor: "deepseek"}, 45: {vendor: "volcengine"}, 46: {vendor: "openai_like", base: "https://qianfan.baidubce.com/v2"},
	47: {vendor: "xinference"}, 48: {vendor: "xai"}, 60: {vendor: "openai_like"},
}

var oneAPITypes = map[int]channelType{
	28: {vendor: "mistral"}, 29: {vendor: "groq"}, 30: {vendor: "ollama"}, 35: {vendor: "cohere"}, 36: {vendor: "deepseek"},
	39: {vendor: "together"}, 40: {vendor: "volcengine"}, 41: {vendor: "novita"}, 42: {vendor: "vertex_ai"}, 44: {vendor: "siliconflow"},
	45: {vendor: "xai"}, 46: {vendor: "replicate"}, 47: {vendor: "openai_like", base: "https://qianfan.baidubce.com/v2"},
	49: {vendor: "dashscope", base: "https://dashscope.aliyuncs.com/compatible-mode/v1"}, 50: {vendor: "openai_like"},
	51: {vendor: "openai_like", base: "https://generativelanguage.googleapis.com/v1beta/openai"},
}

// rows returns the rows of a table: a list, or the reply of an API around one.
func rows(root *value) []*value {
	for _, at := range []*value{root, root.get("data"), root.at("data", "items"), root.get("items"), root.get("keys"), root.get("rows")} {
		if at.is(isList) {
			return at.items
		}
	}
	return nil
}

func likeChannel(root *value) *value {
	if all := rows(root); len(all) > 0 && all[0].get("type") != nil && all[0].get("models") != nil {
		return all[0]
	}
	return nil
}

// likeNewAPI reports whether the source is a list of channels that has what only new-api knows.
func likeNewAPI(root *value) bool {
	c := likeChannel(root)
	return c != nil && (c.get("auto_ban") != nil || c.get("channel_info") != nil || c.get("tag") != nil || c.get("config") == nil)
}

func likeOneAPI(root *value) bool { return likeChannel(root) != nil }

func readNewAPI(root *value, d *draft, _ *Options) error { return readChannels(root, d, newAPITypes) }

func readOneAPI(root *value, d *draft, _ *Options) error { return readChannels(root, d, oneAPITypes) }

// readChannels reads rows of the table channels.
func readChannels(root *value, d *draft, types map[int]channelType) error {
	all := rows(root)
	if len(all) == 0 {
		return fmt.Errorf("there is no list of channels; export the table channels as JSON, or save the reply of GET /api/channel/")
	}
	d.open = true
	d.notes = append(d.notes, "Tokens and users are converted by \"sluice key import\".")
	highest := map[string]float64{}
	for _, c := range all {
		for name := range splitNames(c.get("models").String()) {
			n, _ := c.get("priority").number()
			highest[name] = max(highest[name], n)
		}
	}
	for _, c := range all {
		readChannel(c, d, types, highest)
	}
	return nil
}

// splitNames returns names that are separated by commas.
func splitNames(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name != "" && !yield(name) {
				return
			}
		}
	}
}

// readChannel makes a provider of a channel, and a target of each of its models.
func readChannel(c *value, d *draft, types map[int]channelType, highest map[string]float64) {
	kind := c.get("type")
	t, ok := types[kind.whole()]
	if !ok {
		t, ok = sharedTypes[kind.whole()]
	}
	ven := vendorNamed(t.vendor)
	switch {
	case c.get("status").given() && c.get("status").whole() != 1:
		c.dropped("the channel is switched off")
		return
	case !ok || ven == nil:
		c.dropped(noAdapter)
		return
	case ven.kind == "":
		c.dropped(ven.none)
		return
	}
	kind.taken("kind of the provider")
	c.get("status").taken("the channel is in use")
	p := &provider{kind: ven.kind, baseURL: cmp.Or(t.base, ven.base)}
	readChannelBase(c, p, d)
	readChannelKeys(c, p, d, ven)
	name := c.get("name")
	p = d.provider(p, cmp.Or(slug(name.String()), t.vendor))
	name.changed("name of the provider: " + p.name)
	readChannelModels(c, d, p, highest)
}

// readChannelBase reads the address of a channel, which ends before the version there.
func readChannelBase(c *value, p *provider, d *draft) {
	base := c.get("base_url")
	text := strings.TrimRight(base.String(), "/")
	switch {
	case text == "" && (p.baseURL != "" || config.Address(p.kind) != "" && (p.kind != "openai" || c.get("type").whole() == 1)):
	case text == "" && p.kind == "bedrock":
	case !isAddress(text):
		p.baseURL = d.reference("CHANNEL_BASE_URL")
		d.need("providers.base_url", "channel %q has no address of a server; set the variable CHANNEL_BASE_URL, or base_url", c.get("name").String())
		base.dropped("it is not the address of a server; set base_url by hand")
	case p.kind == "azure" || p.kind == "anthropic" || p.kind == "bedrock" || hasVersion(text):
		p.baseURL = plain(text)
		base.taken("base_url")
	case p.kind == "gemini":
		p.baseURL = plain(text + "/v1beta")
		base.changed("base_url, with the version of the API")
	default:
		p.baseURL = plain(text + "/v1")
		base.changed("base_url, with the version of the API")
	}
	if other := c.get("other"); p.kind == "azure" && other.given() {
		p.apiVersion = plain(other.text)
		other.taken("api_version")
	}
}

// hasVersion reports whether an address ends with the version of an API.
func hasVersion(address string) bool {
	last := address[strings.LastIndexByte(address, '/')+1:]
	return len(last) > 1 && last[0] == 'v' && last[1] >= '1' && last[1] <= '9' || strings.HasSuffix(address, "/openai")
}

// readChannelKeys reads the keys of a channel: one for each line.
func readChannelKeys(c *value, p *provider, d *draft, ven *vendor) {
	key := c.get("key")
	name := cmp.Or(strings.ToUpper(strings.ReplaceAll(slug(c.get("name").String()), "-", "_")), strings.ToUpper(ven.kind)) + "_KEY"
	if !isName(name) {
		name = "CHANNEL_" + name
	}
	if !isName(name) {
		name = "CHANNEL_KEY"
	}
	if p.kind == "bedrock" {
		readChannelAWS(key, p, d)
		return
	}
	var refs []string
	lines := strings.Fields(key.String())
	if len(lines) > 1 {
		key.changed("one reference for each key, in the order of the channel; the keys are not repeated")
	}
	for _, line := range lines {
		one := &value{path: key.path, form: isText, text: line}
		refs = append(refs, d.secret(one, name))
		key.mark(one.fate.outcome, one.fate.text)
	}
	if len(refs) == 0 && ven.key != "" {
		refs = []string{d.reference(name)}
		d.need("providers.api_key", "the export has no key for channel %q; set the variable %s", c.get("name").String(), name)
	}
	p.keys = refs
}

// readChannelAWS reads access key, secret key and region, which are one text.
func readChannelAWS(key *value, p *provider, d *draft) {
	parts := strings.Split(key.String(), "|")
	p.region, p.accessKeyID, p.secretAccessKey = d.reference("AWS_REGION"), d.reference("AWS_ACCESS_KEY_ID"), d.reference("AWS_SECRET_ACCESS_KEY")
	if len(parts) == 3 {
		if region := strings.TrimSpace(parts[2]); isRegion(region) {
			p.region = plain(region)
		}
		key.changed("the region is taken; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for sluice serve")
	}
}

// readChannelModels adds the channel to each of its models.
func readChannelModels(c *value, d *draft, p *provider, highest map[string]float64) {
	mapping, err := parse("model_mapping", []byte(cmp.Or(c.get("model_mapping").String(), "{}")))
	if err != nil {
		mapping = nil
		c.get("model_mapping").dropped("it is not a JSON object")
	}
	weight := c.get("weight").whole()
	priority, _ := c.get("priority").number()
	for name := range splitNames(c.get("models").String()) {
		upstream := cmp.Or(mapping.get(name).String(), name)
		if unserved(upstream, "") != "" {
			d.need("models."+modelID(name), "the model is left out: %s", unserved(upstream, ""))
			continue
		}
		m := d.model(modelID(name))
		m.embedding = m.embedding || isEmbedding(upstream)
		m.addTarget(target{to: p, upstream: upstream, weight: max(weight, 1), spare: priority < highest[name]})
	}
	c.get("models").taken("models and their targets")
	c.get("model_mapping").taken("upstream of the models")
	c.get("weight").taken("weight of the targets")
	c.get("priority").changed("targets below the highest priority have weight 0: they are used only while none of the others is available")
}

var channelAdvice = []advice{
	{"", "this column has no counterpart"},
	{"[].group", noTags},
	{"[].id", "providers are known by their name"},
	{"[].balance", "balances at vendors are not tracked"},
	{"[].balance_updated_time", "balances at vendors are not tracked"},
	{"[].used_quota", "usage of the old gateway is not converted"},
	{"[].response_time", "it is only a measurement"},
	{"[].test_time", "it is only a measurement"},
	{"[].created_time", "it is only a date"},
	{"[].test_model", "sluice doctor tests providers"},
	{"[].auto_ban", noHealth},
	{"[].status_code_mapping", "status codes are those of docs/api.md#status-codes"},
	{"[].param_override", noDefaults},
	{"[].header_override", "no other headers are sent to providers"},
	{"[].setting", "set a proxy or other settings of the channel by hand (docs/configuration.md)"},
	{"[].settings", "set a proxy or other settings of the channel by hand (docs/configuration.md)"},
	{"[].config", "set the region or the version of the API by hand (docs/configuration.md)"},
	{"[].system_prompt", "there is no system prompt of a provider; callers send it"},
	{"[].openai_organization", "the organization of OpenAI is chosen by the key"},
	{"[].channel_info", "each key of a provider is paused by itself when it is refused: this is built in"},
	{"[].tag", "it only groups channels"},
	{"[].remark", "it is only a remark"},
	{"[].other", "set the region or the version of the API by hand (docs/configuration.md)"},
	{"[].other_info", "it is only a note of the gateway"},
	{"success", "it is part of the API's reply"},
	{"message", "it is part of the API's reply"},
	{"data", "it is part of the API's reply"},
}
