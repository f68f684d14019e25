package config

import (
	"net/url"
	"strings"
	"time"
	"unicode"
)

var (
	videoKinds = []string{"azure", "openai", "veo"}
	blobKinds  = []string{"files", "s3"}
)

func (r *record) checkVideo(v *Video) {
	if v.ModelID == "" || strings.ContainsFunc(v.ModelID, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		r.fail("video.model_id", "%s is not a model id; it must not be empty and must not contain spaces", r.shown("video.model_id", v.ModelID))
	}
	r.checkOneOf("video.plan", v.Plan, "plan tier", modelTiers)
	if v.Workers < 0 {
		r.fail("video.workers", "must be 0 or more; got %d", v.Workers)
	}
	if v.Lease < time.Second {
		r.fail("video.lease", "must be at least 1s; got %s", v.Lease)
	}
	if v.Keep < time.Minute {
		r.fail("video.keep", "must be at least 1m; got %s", v.Keep)
	}
	if v.MaxFileMiB < 1 {
		r.fail("video.max_file_mib", "must be above 0")
	}
	if v.AccountMiB < 1 {
		r.fail("video.account_mib", "must be above 0")
	}
	names := map[string]string{sandboxName: "the built-in renderer"}
	for i := range v.Providers {
		p, path := &v.Providers[i], index("video.providers", i)
		if first, taken := names[p.Name]; taken {
			r.fail(path+".name", "%s is also the name of %s; names must differ", r.shown(path+".name", p.Name), first)
		} else if p.Name == "" {
			r.fail(path+".name", "must not be empty")
		} else {
			names[p.Name] = path
		}
		r.checkOneOf(path+".kind", p.Kind, "kind of video provider", videoKinds)
		r.checkBase(path+".base_url", p.BaseURL)
		p.BaseURL = strings.TrimRight(p.BaseURL, "/")
		r.checkKey(path+".api_key", p.APIKey)
		if p.Model == "" || strings.ContainsAny(p.Model, "/?#% \t\n") {
			r.fail(path+".model", "%s is not the name of a model or deployment", r.shown(path+".model", p.Model))
		}
	}
	if _, known := names[v.Provider]; !known && !r.failedIn("video.providers") {
		r.fail("video.provider", "no video provider is called %s; add it under video.providers, or use sandbox", r.shown("video.provider", v.Provider))
	}
}

// checkBase checks the base URL of an API. Some contain a key, so messages do not quote them.
func (r *record) checkBase(path, address string) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		r.fail(path, "must be an address such as https://api.example.com/v1: http or https, without ? and #")
	}
}

func (r *record) checkBlob(b Blob) {
	r.checkOneOf("blob.kind", b.Kind, "kind of storage", blobKinds)
	if b.Kind != "s3" {
		return
	}
	if !isWebOrigin(b.Endpoint) {
		r.fail("blob.endpoint", "must be the origin of the object store, such as https://s3.example.com, without a path and without a slash at the end")
	}
	for _, needed := range []struct{ path, value string }{
		{"blob.bucket", b.Bucket}, {"blob.access_key", b.AccessKey.Reveal()}, {"blob.secret_key", b.SecretKey.Reveal()},
	} {
		if needed.value == "" {
			r.fail(needed.path, "is required if blob.kind is s3")
		}
	}
	r.checkKey("blob.secret_key", b.SecretKey)
}
