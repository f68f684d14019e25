package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/app/config"
	"sluice/internal/upstream/catalog/known"
)

// vendorsFolder holds the gateway that plays the vendors, inside the folder of the demonstration.
const vendorsFolder = "vendors"

// vendorsConfig returns the configuration of the gateway that plays the vendors: its sandbox models have the names of
// theirs.
func vendorsConfig(dir string) (*config.Config, error) {
	var b strings.Builder
	b.WriteString("# The gateway that plays the vendors of the demonstration.\n" +
		"listen: 127.0.0.1:0\nmetrics_listen: \"\"\ndiscover: false\nsignup: closed\ndrain_timeout: 2s\n" +
		"plans:\n  scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited, monthly_units: unlimited}\naliases:\n")
	for _, m := range models() {
		fmt.Fprintf(&b, "  %q: %s\n", m.id, m.answers)
	}
	return load(filepath.Join(dir, vendorsFolder), b.String())
}

// siteConfig returns the configuration of the company's gateway. upstream is where the vendors are played.
func siteConfig(dir, listen, upstream, key string) (*config.Config, error) {
	if err := os.WriteFile(filepath.Join(dir, "vendors.key"), []byte(key), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of the demonstration: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, siteText, listen, domain)
	for _, name := range providers() {
		fmt.Fprintf(&b, "  - {name: %s, kind: openai, api: chat, base_url: %q, api_key: \"${file:%s}\"}\n", name, upstream+"/v1", filepath.Join(dir, "vendors.key"))
	}
	var prices strings.Builder
	b.WriteString("models:\n")
	list, err := known.Models()
	if err != nil {
		return nil, err
	}
	for _, m := range models() {
		for i := range list {
			if k := &list[i]; k.Kind == m.kind && k.Upstream == m.id {
				m.write(&b, k)
				if err := m.writePrices(&prices, k); err != nil {
					return nil, err
				}
			}
		}
	}
	return load(dir, b.String()+"prices:\n"+prices.String())
}

// siteText is the configuration without providers and models.
const siteText = `# The configuration of the demonstration.
listen: %q
metrics_listen: ""
discover: false
signup: invite
drain_timeout: 3s
site:
  name: Tidewater demo
  headline: Every model, behind one key
  intro: This is a demonstration. The company is made up, and the sandbox answers for every model.
  footer: A demonstration of Sluice with made-up data
  seller: Tidewater Books
  seller_address: "12 Harbour Lane\nPort Tidewater"
  seller_tax_id: XX 123 456 789
  taxes: [{country: GB, name: VAT, percent: 20}]
support: {email: help%[2]s}
billing: {processor: testpay}
router: {feedback: true}
video: {keep: 720h, plan: free}
plans:
  none: {requests_per_minute: 20, monthly_units: 400}
  free: {requests_per_minute: 20, monthly_units: 400}
  basic: {requests_per_minute: 40, monthly_units: 12_000}
  premium: {requests_per_minute: 90, monthly_units: 25_000}
  scale: {requests_per_minute: 300, monthly_units: 40_000}
alerts: {email: [ops%[2]s], allow_hosts: [127.0.0.1], disk_free_mib: 0}
aliases: {fast: gpt-6-luna, best: claude-sonnet-5-5}
providers:
`

// write adds the model to the configuration, with the facts of a well-known one.
func (m *offered) write(b *strings.Builder, k *known.Model) {
	fmt.Fprintf(b, "  - id: %s\n    plan: %s\n    context_length: %d\n    description: %q\n    owned_by: %s\n", m.id, k.Plan, k.ContextLength, k.Description, m.provider)
	if m.second == "" {
		fmt.Fprintf(b, "    provider: %s\n", m.provider)
	} else {
		fmt.Fprintf(b, "    targets: [{provider: %s, weight: 9}, {provider: %s, weight: 1}]\n", m.provider, m.second)
	}
	if k.Embeds {
		b.WriteString("    kind: embedding\n")
	} else {
		fmt.Fprintf(b, "    max_output: %d\n    tool_calling: %t\n    reasoning: %t\n    json_mode: true\n", k.MaxOutput, k.ToolCalling, k.Thinks)
	}
}

// writePrices adds the vendor's list prices of a well-known model to the configuration, those of other times included: they would
// not apply by themselves, because the vendor is not the one that answers. An entry as JSON is YAML, too.
func (m *offered) writePrices(b *strings.Builder, k *known.Model) error {
	for _, e := range k.Price.Entries() {
		own := *e
		own.Model, own.Vendor, own.Source, own.Read = m.id, "", "", ""
		raw, err := json.Marshal(&own)
		if err != nil {
			return fmt.Errorf("write the prices of %s: %w", m.id, err)
		}
		fmt.Fprintf(b, "  - %s\n", raw)
	}
	return nil
}

// load writes a configuration into a data folder and reads it. The environment has no part in it: a demonstration is the
// same on every machine.
func load(dir, text string) (*config.Config, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the demonstration: %w", err)
	}
	file := filepath.Join(dir, "sluice.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "data: %q\n%s", dir, text), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of the demonstration: %w", err)
	}
	return config.Load(config.Source{Path: file})
}
