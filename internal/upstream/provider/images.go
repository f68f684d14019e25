package provider

import (
	"fmt"
	"iter"
	"net/url"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/netguard"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

// maxImageURL bounds the address of an image, in bytes. Longer ones are refused by most servers. A data: URL
// is not an address; the bound on the request's body bounds it.
const maxImageURL = 8 << 10

// Remote returns the path, within the request, of the first thing that the upstream would have to fetch, or might. It
// returns the empty string if there is none.
func Remote(req *chat.Request) string {
	path := req.Unvetted()
	if o := req.Original; o != nil && path == "" {
		path = o.Remote
	}
	for at := range remoteImages(req) {
		if path != "" {
			break
		}
		path = at
	}
	return path
}

// CheckAddresses refuses what the upstream must not be asked to fetch. The upstream fetches whatever the
// caller names, from its own network. So an address inside a network is never passed on, however it is
// written. A model that runs inside the operator's network gets no addresses at all: a public name may
// resolve to a private address there, and we are not the ones who resolve it. Nor does it get members of content
// parts that nobody here knows, since any of them may be an address to it.
func CheckAddresses(req *chat.Request, m *catalog.Model) error {
	if m.NoImageURLs {
		if o := req.Original; o != nil && o.Remote != "" {
			return fault.New(fault.Invalid, "The model %q takes documents only as data, not by their address.", m.ID).At(o.Remote)
		}
		if at := req.Unvetted(); at != "" {
			return fault.New(fault.Invalid, "The model %q takes content only as text and as data. This field might be an address, or lead to one; leave it out, or send the content itself in base64.", m.ID).At(at)
		}
	}
	for at, address := range remoteImages(req) {
		switch why := Unfetchable(address); {
		case why != "":
			return fault.New(fault.Invalid, "This image cannot be fetched: %s. Give an address on the public internet, or send the image as a data: URL.", why).At(at)
		case m.NoImageURLs:
			return fault.New(fault.Invalid, "The model %q takes images only as data: URLs, not by their address.", m.ID).At(at)
		}
	}
	return nil
}

// remoteImages yields the images that are given by an address: the path within the request, and the address.
func remoteImages(req *chat.Request) iter.Seq2[string, string] {
	return func(yield func(path, address string) bool) {
		if req.Images() == 0 {
			return // most requests
		}
		for i := range req.Messages {
			for j, p := range req.Messages[i].Content.Parts() {
				if p.IsRemote() && !yield(fmt.Sprintf("messages[%d].content[%d].image_url.url", i, j), p.ImageURL()) {
					return
				}
			}
		}
	}
}

// NoContent returns the fault of a file or sound whose content the upstream cannot be given. The file is part j of
// message i.
func NoContent(f *chat.File, i, j int) error {
	at := fmt.Sprintf("messages[%d].content[%d]", i, j)
	if f.Audio {
		return fault.New(fault.Invalid, "This model takes sound only with its data, in base64, and its format.").At(at + ".input_audio")
	}
	return fault.New(fault.Invalid, "This model takes files only with their content: send it as a data: URL, such as data:application/pdf;base64,….").At(at + ".file.file_data")
}

// isDataURL reports whether a URL is a data: URL, in any case.
func isDataURL(s string) bool { return len(s) >= 5 && strings.EqualFold(s[:5], "data:") }

// Unfetchable returns why an upstream must not be asked to fetch from an address, or the empty string. It refuses everything unusual:
// programs differ in how they read odd addresses, and what we take for public another may not.
func Unfetchable(address string) string {
	if len(address) > maxImageURL {
		return fmt.Sprintf("its address has more than %d characters", maxImageURL)
	}
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) {
		return "its address has characters that a URL must not have"
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https": // Parse has made it lower case
		return "its address is not an http or https URL"
	case u.User != nil:
		return "its address has a user name in it"
	}
	if netguard.CheckHost(u.Hostname()) != nil {
		return "its host is not on the public internet"
	}
	return ""
}

// SelfHosted reports whether a kind of provider is a server that the operator runs.
func SelfHosted(kind string) bool {
	switch kind {
	case "vllm", "llamacpp", "lmstudio", "ollama":
		return true
	}
	return false
}

// Inside reports whether a provider is in the operator's network, as far as its kind and address tell. Such a
// provider would fetch an image's address from there, where a caller has no business.
func Inside(kind, baseURL string) bool {
	if SelfHosted(kind) { // wherever that is
		return true
	}
	u, err := url.Parse(baseURL)
	return err != nil || u.Scheme != "https" || netguard.CheckHost(u.Hostname()) != nil
}
