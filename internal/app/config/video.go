package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

var (
	videoKinds = []string{"azure", "openai", "openrouter-video", "veo"}
	blobKinds  = []string{"files", "s3"}
)

// Video controls how videos are created.
type Video struct {
	// The model id that callers use for videos.
	ModelID string `yaml:"model_id" default:"video-default"`

	// The lowest plan that may create videos: `free`, `basic` or `premium`.
	Plan string `yaml:"plan" default:"free"`

	// The provider of new videos: `sandbox` for the built-in renderer, or the name of one of
	// `video.providers`.
	Provider string `yaml:"provider" default:"sandbox"`

	// How many videos this process works on at once. 0 means 2 with the built-in renderer,
	// which uses every core for each video, and 16 with a provider, where the process only
	// waits.
	Workers int `yaml:"workers" default:"0"`

	// How long a job stays with a process that shows no sign of life before another process
	// takes it over.
	Lease time.Duration `yaml:"lease" default:"30s"`

	// How long a job may take, and how long the job and its file are kept after it has ended.
	Keep time.Duration `yaml:"keep" default:"24h"`

	// The maximum size of one video file, in MiB.
	MaxFileMiB int `yaml:"max_file_mib" default:"512"`

	// The maximum size of an account's stored videos, in MiB. Above it, the account cannot
	// create videos until some expire.
	AccountMiB int `yaml:"account_mib" default:"2048"`

	// The services that can create videos. A job stays at the provider where it was started,
	// so keep an entry until its jobs have ended, and add a new entry for a new key.
	Providers []VideoProvider `yaml:"providers"`
}

// VideoProvider is a service that creates videos.
type VideoProvider struct {
	// The name that `video.provider` refers to.
	Name string `yaml:"name" required:"true"`

	// The API that it speaks: `veo` for Veo models of the Gemini API, `openrouter-video` for
	// OpenRouter's `/videos`, which has models of many vendors, `openai` for services that are
	// compatible with OpenAI's `/v1/videos`, `azure` for those that have the Sora jobs of Azure
	// OpenAI. OpenAI and Azure themselves have ended theirs.
	Kind string `yaml:"kind" required:"true"`

	// The base URL of its API: for `veo` such as
	// `https://generativelanguage.googleapis.com/v1beta`, for `openrouter-video` such as
	// `https://openrouter.ai/api/v1`, for the others that of the service.
	BaseURL string `yaml:"base_url" required:"true"`

	// The API key. Keep it out of the file: write `${NAME}` for an environment variable or
	// `${file:/path}` for a file. If empty, no key is sent.
	APIKey Secret `yaml:"api_key"`

	// The name of the model, such as `veo-3.1-generate-preview`, or `google/veo-3.1` for
	// `openrouter-video`, or of the deployment for `azure`.
	Model string `yaml:"model" required:"true"`
}

func (r *record) checkVideo(v *Video) {
	if v.ModelID == "" || strings.ContainsFunc(v.ModelID, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		r.fail("video.model_id", "%s is not a model id; it must not be empty and must not contain spaces", r.shown("video.model_id", v.ModelID))
	}
	r.checkOneOf("video.plan", v.Plan, "plan tier", modelTiers)
	r.failIf(v.Workers < 0, "video.workers", "must be 0 or more; got %d", v.Workers)
	r.failIf(v.Lease < time.Second, "video.lease", "must be at least 1s; got %s", v.Lease)
	r.failIf(v.Keep < time.Minute, "video.keep", "must be at least 1m; got %s", v.Keep)
	r.failIf(v.MaxFileMiB < 1, "video.max_file_mib", "must be above 0")
	r.failIf(v.AccountMiB < 1, "video.account_mib", "must be above 0")
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
		r.checkVideoModel(path, p)
	}
	if _, known := names[v.Provider]; !known && !r.failedIn("video.providers") {
		r.fail("video.provider", "no video provider is called %s; add it under video.providers, or use sandbox", r.shown("video.provider", v.Provider))
	}
}

// endedVeo are the beginnings of Veo's names that Google has ended.
var endedVeo = []string{"veo-2", "veo-3.0"}

// checkVideoModel checks the name of a model, and whether its vendor still has it.
func (r *record) checkVideoModel(path string, p *VideoProvider) {
	odd := "/?#% \t\n"
	if p.Kind == "openrouter-video" {
		odd = odd[1:] // it has models such as google/veo-3.1, and gets the name in a body
	}
	r.failIf(p.Model == "" || strings.ContainsAny(p.Model, odd), path+".model", "%s is not the name of a model or deployment", r.shown(path+".model", p.Model))
	host := ""
	if u, err := url.Parse(p.BaseURL); err == nil {
		host = u.Hostname()
	}
	switch {
	case p.Kind == "veo" && slices.ContainsFunc(endedVeo, func(name string) bool { return strings.HasPrefix(p.Model, name) }):
		r.fail(path+".model", "Google ended %s on 2026-06-30; use veo-3.1-generate-preview, veo-3.1-fast-generate-preview or veo-3.1-lite-generate-preview", r.shown(path+".model", p.Model))
	case p.Kind == "openai" && host == "api.openai.com":
		r.warn(path+".base_url", "OpenAI ended its videos on 2026-09-24; use kind veo or openrouter-video, or the address of a service that is compatible with it")
	case p.Kind == "azure" && (strings.HasSuffix(host, ".openai.azure.com") || strings.HasSuffix(host, ".cognitiveservices.azure.com")):
		r.warn(path+".base_url", "Azure ended Sora on 2026-10-15; use kind veo or openrouter-video")
	}
}

// checkBase checks the base URL of an API. Some contain a key, so messages do not quote them.
func (r *record) checkBase(path, address string) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		r.fail(path, "must be an address such as https://api.example.com/v1: http or https, without ? and #")
	}
}

// checkStorage checks where files are stored. The one line storage is read into the section blob, which
// everything else uses.
func (r *record) checkStorage(c *Config) {
	if c.Storage == "" {
		r.checkBlob(c.Blob)
		return
	}
	for _, path := range []string{"kind", "dir", "endpoint", "region", "bucket", "prefix"} {
		if _, given := r.places["blob."+path]; given {
			r.fail("storage", "says where files are stored, and so does blob.%s; remove one of the two", path)
			return
		}
	}
	keys := Blob{AccessKey: c.Blob.AccessKey, SecretKey: c.Blob.SecretKey}
	if keys.AccessKey == "" && keys.SecretKey == "" {
		keys.AccessKey, keys.SecretKey = Secret(r.env["AWS_ACCESS_KEY_ID"]), Secret(r.env["AWS_SECRET_ACCESS_KEY"])
	}
	b, err := ParseStorage(c.Storage, keys)
	if err != nil {
		r.fail("storage", "%v", err)
		return
	}
	c.Blob = b
}

// ParseStorage reads a place for files: a folder, or a bucket such as
// s3://bucket/prefix?endpoint=https://s3.example.com. Of keys only the two keys of the bucket are used.
func ParseStorage(text string, keys Blob) (Blob, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return Blob{Kind: "files", Dir: text}, nil
	}
	if u.Scheme != "s3" || u.Host == "" || !isWebOrigin(u.Query().Get("endpoint")) {
		return Blob{}, errors.New("must be a folder, or a bucket such as s3://bucket/prefix?endpoint=https://s3.example.com")
	}
	b := Blob{
		Kind: "s3", Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/"), Endpoint: u.Query().Get("endpoint"), Region: u.Query().Get("region"),
		AccessKey: keys.AccessKey, SecretKey: keys.SecretKey,
	}
	if b.Prefix != "" && !strings.HasSuffix(b.Prefix, "/") {
		b.Prefix += "/"
	}
	if b.AccessKey == "" || b.SecretKey == "" {
		return Blob{}, errors.New("the keys of the bucket are missing: set blob.access_key and blob.secret_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
	}
	return b, nil
}

func (r *record) checkBlob(b Blob) {
	r.checkOneOf("blob.kind", b.Kind, "kind of storage", blobKinds)
	if b.Kind != "s3" {
		return
	}
	r.failIf(!isWebOrigin(b.Endpoint), "blob.endpoint", "must be the origin of the object store, such as https://s3.example.com, without a path and without a slash at the end")
	for _, needed := range []struct{ path, value string }{
		{"blob.bucket", b.Bucket}, {"blob.access_key", b.AccessKey.Reveal()}, {"blob.secret_key", b.SecretKey.Reveal()},
	} {
		r.failIf(needed.value == "", needed.path, "is required if blob.kind is s3")
	}
	r.checkKey("blob.secret_key", b.SecretKey)
}
