package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"sluice/internal/account/billing"
	"sluice/internal/kit/colour"
)

const (
	// maxLogo is the maximum size of a logo in bytes.
	maxLogo = 64 << 10
	// maxSiteText is the maximum length of each text of the site in characters.
	maxSiteText = 400
)

func (r *record) checkSite(s *Site) {
	for path, text := range map[string]string{"site.name": s.Name, "site.headline": s.Headline, "site.intro": s.Intro, "site.footer": s.Footer, "site.seller": s.Seller, "site.seller_address": s.SellerAddress, "site.seller_tax_id": s.SellerTaxID} {
		if n := utf8.RuneCountInString(text); n > maxSiteText {
			r.fail(path, "has %d characters; at most %d are shown", n, maxSiteText)
		}
	}
	for i, t := range s.Taxes {
		path := fmt.Sprintf("site.taxes[%d]", i)
		r.failIf(t.Country != "" && billing.CountryName(t.Country) == "", path+".country", "%s is no country; write its two letters, such as DE", r.shown(path+".country", t.Country))
		r.failIf(strings.TrimSpace(t.Name) == "", path+".name", "is required, such as VAT")
		r.failIf(t.Percent > 100_000, path+".percent", "must be at most 100")
		for field, text := range map[string]string{"name": t.Name, "note": t.Note} {
			if n := utf8.RuneCountInString(text); n > maxSiteText {
				r.fail(path+"."+field, "has %d characters; at most %d are shown", n, maxSiteText)
			}
		}
	}
	if s.Logo != "" {
		if _, _, err := s.ReadLogo(); err != nil {
			r.fail("site.logo", "cannot use %s: %v", r.shown("site.logo", s.Logo), err)
		}
	}
	for _, a := range []struct {
		path, text string
		dark       bool
	}{{"site.accent", s.Accent, false}, {"site.accent_dark", s.AccentDark, true}} {
		if a.text == "" {
			continue
		}
		c, err := colour.Parse(a.text)
		if err != nil {
			r.fail(a.path, "%v", err)
		} else if problem := colour.NewAccent(c, a.dark).Problem(); problem != "" {
			r.fail(a.path, "%s", problem)
		}
	}
}

// ChosenBrand returns the brand, or "" if the operator has not chosen one.
func (c *Config) ChosenBrand() string {
	if c.Brand == "service" {
		return ""
	}
	return c.Brand
}

// ShownName returns the name of the service as people read it.
func (c *Config) ShownName() string { return cmp.Or(c.Site.Name, c.ChosenBrand(), "Sluice") }

// ReadLogo reads the file of the logo. It returns its content and its media type, or nil if there
// is none.
func (s *Site) ReadLogo() (content []byte, kind string, err error) {
	if s.Logo == "" {
		return nil, "", nil
	}
	f, err := os.Open(s.Logo)
	if err != nil {
		return nil, "", errors.New(reason(err))
	}
	defer f.Close()
	if content, err = io.ReadAll(io.LimitReader(f, maxLogo+1)); err != nil {
		return nil, "", errors.New(reason(err))
	}
	if len(content) > maxLogo {
		return nil, "", fmt.Errorf("it is larger than %d KiB", maxLogo>>10)
	}
	switch {
	case bytes.HasPrefix(content, []byte("\x89PNG\r\n\x1a\n")):
		return content, "image/png", nil
	case len(content) > 12 && string(content[:4]) == "RIFF" && string(content[8:12]) == "WEBP":
		return content, "image/webp", nil
	case bytes.Contains(content[:min(len(content), 1024)], []byte("<svg")):
		return content, "image/svg+xml", nil
	}
	return nil, "", errors.New("it is neither SVG nor PNG nor WebP")
}
