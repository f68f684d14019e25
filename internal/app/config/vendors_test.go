package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A provider whose kind has a known address needs none, and gets that one.
func TestVendorAddresses(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		if kind == "azure" || kind == bedrock {
			continue
		}
		c, problem := loadText(t, "providers: [{name: p, kind: "+kind+"}]\n")
		if problem != "" {
			t.Errorf("Load(kind %s) = %s", kind, problem)
			continue
		}
		if got := c.Providers[0].BaseURL; !strings.HasPrefix(got, "http") || strings.HasSuffix(got, "/") {
			t.Errorf("Load(kind %s) has the address %q, want the vendor's", kind, got)
		}
	}
	c, problem := loadText(t, "providers: [{name: p, kind: azure, base_url: 'https://mine.openai.azure.com/', api_version: '2024-10-21'}]\n")
	if problem != "" || c.Providers[0].BaseURL != "https://mine.openai.azure.com" || c.Providers[0].APIVersion != "2024-10-21" {
		t.Errorf("Load(kind azure) = %+v, %s, want address and version as written", c, problem)
	}
	c, problem = loadText(t, "providers: [{name: p, kind: bedrock, region: eu-west-3, access_key_id: AKIA, secret_access_key: hunter2}]\n")
	if problem != "" || c.Providers[0].BaseURL != "https://bedrock-runtime.eu-west-3.amazonaws.com" || c.Providers[0].Keys()[0].Reveal() != "hunter2" {
		t.Errorf("Load(kind bedrock) = %+v, %s, want the region's address and the key", c, problem)
	}
	for _, credential := range []string{"access_key_id: AKIA, secret_access_key: hunter2", "api_key: hunter2"} {
		c, problem = loadText(t, "providers: [{name: p, kind: bedrock, api: native, region: eu-west-3, "+credential+"}]\n")
		if problem != "" || c.Providers[0].BaseURL != "https://bedrock-mantle.eu-west-3.api.aws" || c.Providers[0].Keys()[0].Reveal() != "hunter2" {
			t.Errorf("Load(kind bedrock, api native, %s) = %+v, %s, want the region's address and the key", credential, c, problem)
		}
	}
}

// The page for operators has a row for every kind, with the variable that is looked for in the environment, and a section for
// its vendor; README.md has the number of them.
func TestKindsAreDocumented(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	for _, name := range []string{"README.md", "docs/providers/README.md", "docs/providers/vendors.md"} {
		text, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	_, table, _ := strings.Cut(pages["docs/providers/README.md"], "\n## Kinds of providers\n")
	table, _, _ = strings.Cut(table, "\n## ")
	variables := map[string]string{}
	for _, f := range vendorKeys {
		variables[f.kind] = f.variable
	}
	for _, kind := range Kinds() {
		row := ""
		for line := range strings.Lines(table) {
			if strings.HasPrefix(line, "|") && strings.Contains(strings.Split(line, "|")[1], "`"+kind+"`") {
				row = line
			}
		}
		if row == "" || !strings.Contains(row, variables[kind]) {
			t.Errorf("the row of %s in docs/providers/README.md is %q, want one with its variable %q", kind, row, variables[kind])
		}
		if !strings.Contains(pages["docs/providers/vendors.md"], "kind: "+kind) {
			t.Errorf("docs/providers/vendors.md has no example of the kind %s", kind)
		}
	}
	if want := fmt.Sprintf("[%d kinds]", len(Kinds())); !strings.Contains(pages["README.md"], want) {
		t.Errorf("README.md does not say %s", want)
	}
}
