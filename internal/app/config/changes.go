package config

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/kit/buildinfo"
)

// change is what a version does differently with a configuration that is still valid.
type change struct {
	version string
	setting string
	applies func(c *Config) bool
	text    string // what is different, and what to do if that is not wanted
}

// changes are those since 0.1.0. What a version refuses is not among them: Load says that.
var changes = []change{
	{
		"0.2.0", "providers[].allow", func(c *Config) bool {
			return slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.API == "responses" && len(p.Allow) == 0 })
		},
		"what a request chooses at your cost, such as web_search, reaches a provider only if this lists it",
	},
	{
		"0.3.0", "node_address", func(c *Config) bool { return c.Database != "sqlite" && c.NodeAddress == "" },
		"servers on one database must reach each other on the port of the API; set this where the address that a server finds by itself does not work, such as behind NAT",
	},
	{
		"0.3.0", "blob.region", func(c *Config) bool { return c.Blob.Kind == "s3" && c.Blob.Region == "" },
		"without a region the store is asked for it; set this if the store refuses the question (GET ?location)",
	},
	{
		"0.3.0", "providers[].api", func(c *Config) bool { return slices.ContainsFunc(c.Providers, byResponses) },
		"OpenAI and Azure are called by the Responses API where a model or a caller needs it; write api: chat to go on with chat completions",
	},
}

// byResponses reports whether a provider is called by the Responses API since 0.3.0, because its entry does not decide it.
func byResponses(p Provider) bool {
	return p.API == "" && (p.Kind == "azure" || p.Kind == "openai" && strings.HasPrefix(p.BaseURL, "https://api.openai.com/"))
}

// Changes returns what this version does differently with the configuration than an earlier one did, one sentence each.
// If the earlier version is not known, it is the one before this.
func (c *Config) Changes(before string) []string {
	var out []string
	for _, ch := range changes {
		newer := slices.Compare(numbers(ch.version), numbers(before)) > 0
		if before == "" {
			newer = ch.version == buildinfo.Release
		}
		if newer && ch.applies(c) {
			out = append(out, fmt.Sprintf("%s: since %s, %s", ch.setting, ch.version, ch.text))
		}
	}
	return out
}

// numbers returns the three numbers of a version. What follows them, as in 0.3.0-dev, does not count.
func numbers(version string) []int {
	out := make([]int, 3)
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &out[0], &out[1], &out[2]) // what is not there is 0
	return out
}
