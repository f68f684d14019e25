package config

import (
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
