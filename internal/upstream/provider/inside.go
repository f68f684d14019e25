package provider

import (
	"net/url"

	"sluice/internal/kit/netguard"
)

// Inside reports whether a provider is in the operator's network, as far as its kind and address tell. Such a
// provider would fetch an image's address from there, where a caller has no business.
func Inside(kind, baseURL string) bool {
	switch kind {
	case "vllm", "llamacpp", "lmstudio", "ollama": // run by the operator, wherever that is
		return true
	}
	u, err := url.Parse(baseURL)
	return err != nil || u.Scheme != "https" || netguard.CheckHost(u.Hostname()) != nil
}
