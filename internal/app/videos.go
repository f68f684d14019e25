package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"time"

	"sluice/internal/account"
	"sluice/internal/blob"
	"sluice/internal/config"
	"sluice/internal/usage"
	"sluice/internal/video"
	"sluice/internal/video/azure"
	"sluice/internal/video/openai"
	"sluice/internal/video/sandbox"
	"sluice/internal/video/veo"
)

const (
	sandboxEngine = "sandbox"

	// How many videos are made at once where the operator does not say.
	sandboxWorkers = 2
	vendorWorkers  = 16

	filesPatience = 5 * time.Second
)

// openVideos opens the line of video jobs; Run works on them.
func (a *App) openVideos(ctx context.Context, cfg *config.Config) error {
	files, err := a.openFiles(cfg)
	if err != nil {
		return err
	}
	checking, cancel := context.WithTimeout(ctx, filesPatience)
	defer cancel()
	if err := files.Check(checking); err != nil {
		a.log.Warn("the storage of videos cannot be used; jobs will be tried again", "error", err.Error())
	}
	node, err := a.facts.dir.Node()
	if err != nil {
		return err
	}
	a.videos, err = video.New(ctx, a.gate, a.facts.store, files, node, a.videoSettings(a.settings.Load()), &video.Options{
		Log: a.log, Settled: func(u *usage.Settlement) { a.abuse.Settled(u) },
	})
	return err
}

// files is where videos lie.
type files interface {
	video.Files
	Check(ctx context.Context) error
}

func (a *App) openFiles(cfg *config.Config) (files, error) {
	b := cfg.Blob
	if b.Kind == "s3" {
		return blob.NewS3(a.facts.dir.Join("tmp"), blob.S3Options{
			Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Bucket, Prefix: b.Prefix, AccessKey: b.AccessKey.Reveal(), SecretKey: b.SecretKey.Reveal(),
		})
	}
	if b.Dir == "" {
		b.Dir = a.facts.dir.Join("files")
	}
	return blob.NewDisk(b.Dir)
}

// videoSettings is what a configuration means to the video line.
func (a *App) videoSettings(s *settings) video.Settings {
	c := &s.config.Video
	tier, err := account.ParsePlan(c.Plan)
	if err != nil {
		tier = account.Free // config.Load lets only known names pass
	}
	out := video.Settings{
		Model: c.ModelID, Tier: tier, Plans: s.plans, Origin: a.origin(s.config), Workers: c.Workers, Lease: c.Lease, Keep: c.Keep,
		FileBytes: int64(c.MaxFileMiB) << 20, AccountBytes: int64(c.AccountMiB) << 20, Engines: a.engines(c),
	}
	for _, e := range out.Engines {
		if e.Name == c.Provider {
			out.Engine = e
		}
	}
	if out.Workers == 0 {
		out.Workers = vendorWorkers
		if c.Provider == sandboxEngine {
			out.Workers = sandboxWorkers
		}
	}
	return out
}

// engines are all that can make videos, the built-in one first.
func (a *App) engines(c *config.Video) []video.Engine {
	out := []video.Engine{{Name: sandboxEngine, Credential: sandboxEngine, Renderer: builtIn{}}}
	if a.opts.Renderer != nil {
		out[0].Renderer = a.opts.Renderer
	}
	for i := range c.Providers {
		p := &c.Providers[i]
		v, err := newVendor(p)
		if err != nil {
			a.log.Error("a video provider cannot be used", "provider", p.Name, "error", err.Error()) // config.Load has checked its address
			continue
		}
		out = append(out, video.Engine{Name: p.Name, Credential: credential(p), Renderer: video.Remote(v, nil)})
	}
	return out
}

func newVendor(p *config.VideoProvider) (video.Vendor, error) {
	switch key := p.APIKey.Reveal(); p.Kind {
	case "azure":
		return azure.New(p.BaseURL, key, p.Model)
	case "veo":
		return veo.New(p.BaseURL, key, p.Model)
	default:
		return openai.New(p.BaseURL, key, p.Model)
	}
}

// builtIn is the renderer that needs no vendor.
type builtIn struct{}

func (builtIn) Render(ctx context.Context, w io.Writer, t *video.Task) error {
	return sandbox.Render(ctx, w, sandbox.Spec{Prompt: t.Prompt, Width: t.Width, Height: t.Height, Seconds: t.Seconds}, t.Progress)
}

// credential tells one way of calling a vendor from another without telling the key.
func credential(p *config.VideoProvider) string {
	sum := sha256.Sum256([]byte(p.Kind + "\n" + p.BaseURL + "\n" + p.APIKey.Reveal()))
	return hex.EncodeToString(sum[:8])
}
