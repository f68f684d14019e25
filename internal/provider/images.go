package provider

import (
	"fmt"
	"net/url"
	"strings"

	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/netguard"
)

// maxImageURL bounds the address of an image. What a data: URL may hold is bounded with the request.
const maxImageURL = 8 << 10

// RemoteImage is the path of the first image that the upstream would have to fetch; empty: there is none.
func RemoteImage(req *chat.Request) string {
	path := ""
	eachRemoteImage(req, func(at, _ string) bool {
		path = at
		return false
	})
	return path
}

// CheckImages refuses images that the upstream should not be asked to fetch. It fetches what the caller names,
// from where it is: so an address inside a network is never handed on, however it is written; and a model
// that runs inside the operator's own network gets no addresses at all, because what a name means is
// decided when it is looked up, which is not here.
func CheckImages(req *chat.Request, m *catalog.Model) (err error) {
	eachRemoteImage(req, func(at, address string) bool {
		switch why := unfit(address); {
		case why != "":
			err = fault.New(fault.Invalid, "This image cannot be fetched: %s. Give an address on the public internet, or send the image as a data: URL.", why).At(at)
		case m.NoImageURLs:
			err = fault.New(fault.Invalid, "The model %q takes images as data: URLs alone, not by their address.", m.ID).At(at)
		}
		return err == nil
	})
	return err
}

// eachRemoteImage visits the images that are given by an address, with their paths, until visit returns false.
func eachRemoteImage(req *chat.Request, visit func(path, address string) bool) {
	if req.Images() == 0 {
		return // nearly always
	}
	for i := range req.Messages {
		for j, p := range req.Messages[i].Content.Parts() {
			if p.ImageURL == "" || isDataURL(p.ImageURL) {
				continue
			}
			if !visit(fmt.Sprintf("messages[%d].content[%d].image_url.url", i, j), p.ImageURL) {
				return
			}
		}
	}
}

func isDataURL(s string) bool { return len(s) >= 5 && strings.EqualFold(s[:5], "data:") }

// unfit says what is wrong with an image's address; empty: nothing. Programs differ in how they read odd
// addresses, so what is odd is refused.
func unfit(address string) string {
	if len(address) > maxImageURL {
		return fmt.Sprintf("its address has more than %d characters", maxImageURL)
	}
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f }) {
		return "its address holds characters that do not belong there"
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "":
		return "its address is not an http or https URL"
	case u.Scheme != "http" && u.Scheme != "https": // Parse makes it lower case
		return "its address is not an http or https URL"
	case u.User != nil:
		return "its address holds a user name"
	}
	if netguard.CheckHost(u.Hostname()) != nil {
		return "its host is not one of the public internet"
	}
	return ""
}
