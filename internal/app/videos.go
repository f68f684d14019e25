package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"time"

	"sluice/internal/account"
	"sluice/internal/admission"
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

// openVideos begins the line of video jobs; Run works on them.
func (a *App) openVideos(ctx context.Context, gate *admission.Gate, s *settings) error {
	files, err := a.openFiles(s.config)
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
	a.videos, err = video.New(ctx, gate, a.facts.store, files, node, a.videoSettings(s), &video.Options{
		Log: a.log, Settled: func(u *usage.Settlement) { a.abuse.Settled(u) },
	})
	if err != nil {
		return err
	}
	a.metrics.Gauge("sluice_videos_running", "Video jobs that this process works on now.", func() float64 { return float64(a.videos.Running()) })
	return nil
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

// origin is what links begin with. Where it is made of the listen address, the port is the one we have.
func (a *App) origin(cfg *config.Config) string {
	host, _, err := net.SplitHostPort(cfg.Listen)
	_, port, err2 := net.SplitHostPort(a.Addr())
	if cfg.PublicURL != "" || err != nil || err2 != nil {
		return cfg.Origin()
	}
	here := *cfg
	here.Listen = net.JoinHostPort(host, port)
	return here.Origin()
}

// engines are all that can make videos, the built-in one first.
func (a *App) engines(c *config.Video) []video.Engine {
	out := []video.Engine{{Name: sandboxEngine, Credential: sandboxEngine, Renderer: builtIn{}}}
	if a.renderer != nil {
		out[0].Renderer = a.renderer
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

// recentVideos are the jobs of the last minute as they count in its windows: whatever became of them, their
// creation consumed their requests.
func (f *facts) recentVideos(ctx context.Context, since time.Time) ([]usage.Settlement, error) {
	jobs, err := f.store.VideosSince(ctx, since)
	if err != nil {
		return nil, err
	}
	out := make([]usage.Settlement, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		out = append(out, usage.Settlement{At: j.CreatedAt, AccountID: j.AccountID, RequestMilli: j.CostMilli})
	}
	return out, nil
}
