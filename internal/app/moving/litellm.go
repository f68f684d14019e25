package moving

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// likeLiteLLM reports whether the source is a configuration of LiteLLM's proxy.
func likeLiteLLM(root *value) bool {
	for _, section := range []string{"model_list", "litellm_settings", "router_settings", "general_settings", "include"} {
		if root.get(section) != nil {
			return true
		}
	}
	return false
}

// liteLLM reads a configuration of LiteLLM's proxy.
type liteLLM struct {
	*draft
	roots       []*value          // the file and those that it includes
	variables   map[string]*value // environment_variables
	credentials map[string]*value // credential_list
	// deployments are the entries of model_list by model_name, in order.
	names       []string
	deployments map[string][]*deployment
}

// deployment is one entry of model_list.
type deployment struct {
	at, params, info *value
	vendor           *vendor
	vendorName       string
	upstream         string
	provider         *provider
	weight           float64
	order            float64
}

func readLiteLLM(root *value, d *draft, o *Options) error {
	r := &liteLLM{draft: d, variables: map[string]*value{}, credentials: map[string]*value{}, deployments: map[string][]*deployment{}}
	d.open = true
	d.notes = append(d.notes, "Accounts and keys are converted by \"sluice key import\".")
	if err := r.include(root, o); err != nil {
		return err
	}
	for _, root := range r.roots {
		r.readVariables(root.get("environment_variables"))
		for _, c := range root.get("credential_list").list() {
			r.credentials[c.get("credential_name").String()] = c
		}
	}
	for _, root := range r.roots {
		for _, entry := range root.get("model_list").list() {
			r.readDeployment(entry)
		}
	}
	for _, name := range r.names {
		r.buildModel(name, r.deployments[name])
	}
	for _, root := range r.roots {
		r.readRouter(root)
		r.readTimeouts(root)
	}
	for name, c := range r.credentials {
		c.get("credential_name").dropped(fmt.Sprintf("no model that was converted uses the credential %s", strconv.Quote(name)))
	}
	return nil
}

// maxIncludes is how many files a configuration may include.
const maxIncludes = 50

// include collects the file and those that it includes.
func (r *liteLLM) include(root *value, o *Options) error {
	r.roots = append(r.roots, root)
	for i := 0; i < len(r.roots); i++ {
		for _, name := range r.roots[i].get("include").list() {
			file := filepath.Clean(name.String())
			if o.ReadFile == nil || len(r.roots) > maxIncludes {
				return fmt.Errorf("%s: files cannot be included here; at most %d are read, and none from standard input", name.path, maxIncludes)
			}
			text, err := o.ReadFile(file)
			if err != nil {
				return fmt.Errorf("%s: cannot read the included file %s: %w", name.path, strconv.Quote(file), err)
			}
			part, err := parse(file, text)
			if err != nil {
				return err
			}
			part.rebase(file + ": ")
			r.addSource(part)
			r.roots = append(r.roots, part)
			name.changed("the file is part of the result")
		}
	}
	return nil
}

// readVariables reads variables that the file itself sets. Their values may be keys, so they are never repeated.
func (r *liteLLM) readVariables(section *value) {
	for _, name := range section.keyList() {
		v := section.get(name)
		if v.given() && isName(name) {
			r.variables[name] = v
		}
		v.changed("set the variable in the environment of sluice serve, if the result refers to it; its value is not repeated")
	}
}

func (v *value) keyList() []string {
	if v == nil {
		return nil
	}
	return v.keys
}

// readDeployment reads what an entry of model_list is, and files it under its name.
func (r *liteLLM) readDeployment(entry *value) {
	d := &deployment{at: entry, params: entry.get("litellm_params"), info: entry.get("model_info")}
	name, full := entry.get("model_name").String(), d.params.get("model").String()
	base := d.params.get("api_base").given() || d.params.get("base_url").given()
	d.vendorName, d.upstream = splitModel(full, d.params)
	d.vendor = vendorNamed(d.vendorName)
	address := plain(cmp.Or(d.params.get("api_base").String(), d.params.get("base_url").String()))
	switch instead := unserved(d.upstream, d.info.get("mode").String()); {
	case instead != "":
		entry.dropped(instead)
		return
	case name == "" || full == "" || variableOnly(full) && !base:
		entry.dropped("an entry needs model_name and litellm_params.model in clear; complete it and convert again")
		return
	case base && !variableOnly(address) && !isAddress(address):
		entry.dropped("api_base is not the address of a server; correct it and convert again")
		return
	case variableOnly(full):
		d.vendor, d.vendorName, d.upstream = vendorNamed("openai_like"), "openai_like", plain(full)
		r.need("models."+modelID(name)+".upstream", "the name comes from a variable; if its value begins with a vendor's prefix such as openai/, remove that part")
	case d.vendor == nil && base:
		d.vendor, d.vendorName, d.upstream = vendorNamed("openai_like"), "openai_like", full
	case d.vendor == nil:
		entry.dropped(noAdapter)
		return
	}
	if d.vendor.kind == "" {
		entry.dropped(d.vendor.none)
		return
	}
	if r.deployments[name] == nil {
		r.names = append(r.names, name)
	}
	r.deployments[name] = append(r.deployments[name], d)
}

// variableOnly reports whether a text is only the name of a variable.
func variableOnly(text string) bool { _, ok := variable(text); return ok }

// splitModel returns the vendor and the vendor's name for a model.
func splitModel(full string, params *value) (vendorName, upstream string) {
	if named := params.get("custom_llm_provider").String(); named != "" {
		return named, strings.TrimPrefix(full, named+"/")
	}
	if head, rest, ok := strings.Cut(full, "/"); ok && vendorNamed(head) != nil {
		if head == "bedrock" {
			rest = strings.TrimPrefix(strings.TrimPrefix(rest, "converse/"), "invoke/")
		}
		return head, strings.TrimPrefix(rest, "responses/")
	}
	if full == "*" {
		return "openai", "*"
	}
	return vendorOfModel(full), full
}

// buildModel makes a model, or a provider that lists its models, of the deployments with one name.
func (r *liteLLM) buildModel(name string, all []*deployment) {
	if len(all) == 0 {
		return
	}
	for _, d := range all {
		r.buildProvider(d, name)
	}
	if strings.HasSuffix(all[0].upstream, "*") || strings.HasSuffix(name, "*") {
		r.buildWildcard(name, all)
		return
	}
	id := modelID(name)
	m := r.model(id)
	weigh(all)
	lowest := slices.MinFunc(all, func(a, b *deployment) int { return cmp.Compare(a.order, b.order) }).order
	if id != name {
		all[0].at.get("model_name").changed("ids have no spaces: " + id)
	}
	for _, d := range all {
		d.at.get("model_name").taken("models." + id)
		d.params.get("model").taken("models." + id + ".upstream")
		d.params.get("custom_llm_provider").taken("kind of the provider")
		m.addTarget(target{to: d.provider, upstream: d.upstream, weight: int(min(d.weight, 1e9)), spare: d.order > lowest || d.weight < 1 && len(all) > 1})
		r.readInfo(m, d)
	}
}

// buildPattern makes a model under its own name, and an alias of a pattern of names that leads to it.
func (r *liteLLM) buildPattern(name string, d *deployment) {
	m := r.model(modelID(d.upstream))
	m.addTarget(target{to: d.provider, upstream: d.upstream, weight: 1})
	d.params.get("model").taken("models." + m.id)
	r.readInfo(m, d)
	if old := r.aliased[name]; old != nil && old != d.at.get("model_name") {
		d.at.get("model_name").dropped("the pattern leads to another model already")
		return
	}
	r.aliases[name], r.aliased[name] = m.id, d.at.get("model_name")
}

// buildWildcard makes providers list their models.
func (r *liteLLM) buildWildcard(name string, all []*deployment) {
	for _, d := range all {
		if !strings.HasSuffix(d.upstream, "*") {
			r.buildPattern(name, d)
			continue
		}
		switch d.provider.kind {
		case "azure", "bedrock":
			d.at.dropped("this vendor's list of models is not read; list the models that are used under models")
			continue
		}
		d.provider.discover = r.options.Plan
		how := "the provider " + d.provider.name + " offers all models that it lists, as " + d.provider.name + "/…"
		d.params.get("model").changed(how)
		if name == d.provider.name+"/*" {
			d.at.get("model_name").taken("providers." + d.provider.name + ".discover")
			continue
		}
		d.at.get("model_name").changed(how + "; add aliases for the names that callers use")
	}
}
