package settings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"

	"sluice/internal/account"
	"sluice/internal/app/config"
	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog"
	"sluice/internal/video"
	"sluice/internal/video/azure"
	"sluice/internal/video/openai"
	"sluice/internal/video/openrouter"
	"sluice/internal/video/veo"
	"sluice/sandbox/clips"
)

const (
	sandboxEngine = "sandbox"

	// The number of videos that are made at once unless the operator sets one. The sandbox needs a
	// core for each, a vendor only a connection.
	sandboxWorkers = 2
	vendorWorkers  = 16
)

// Video returns the part of the settings that the video line needs. Links to videos begin with
// origin. builtIn replaces the sandbox, for tests; if it is nil, the sandbox is used.
func (s *Settings) Video(origin string, builtIn video.Renderer, log *slog.Logger) video.Settings {
	c := &s.Config.Video
	tier, err := account.ParsePlan(c.Plan)
	if err != nil {
		tier = account.Free // config.Load lets only known names pass
	}
	out := video.Settings{
		Model: c.ModelID, Tier: tier, Plans: s.Plans, Origin: origin, Workers: c.Workers, Lease: c.Lease, Keep: c.Keep,
		FileBytes: int64(c.MaxFileMiB) << 20, AccountBytes: int64(c.AccountMiB) << 20, Engines: s.engines(builtIn, log), Markup: s.markup,
	}
	// New jobs use the configured engine. The others stay, so that jobs which they began can end.
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

// VideoModel returns the model that makes videos. It is not in the catalog, whose models answer chats.
func (s *Settings) VideoModel() catalog.Model {
	cfg := s.Config
	plan, err := account.ParsePlan(cfg.Video.Plan)
	if err != nil {
		plan = account.Free // config.Load lets only known names pass
	}
	return catalog.Model{
		ID: cfg.Video.ModelID, OwnedBy: cfg.Brand, Plan: plan, RequestMilli: 1000,
		Description: "Makes short videos from text.",
	}
}

// engines returns everything that can make videos, the sandbox first.
func (s *Settings) engines(builtIn video.Renderer, log *slog.Logger) []video.Engine {
	if builtIn == nil {
		builtIn = sandboxRenderer{}
	}
	out := []video.Engine{{Name: sandboxEngine, Credential: sandboxEngine, Renderer: builtIn}}
	for i := range s.Config.Video.Providers {
		p := &s.Config.Video.Providers[i]
		v, err := newVendor(p)
		if err != nil { // no reason to refuse the settings: the others still work
			log.Error("a video provider cannot be used", "provider", p.Name, "error", err.Error()) // config.Load has checked its address
			continue
		}
		out = append(out, video.Engine{Name: p.Name, Credential: credential(p), Renderer: video.Remote(v, 0), Price: s.videoPrices(p)})
	}
	return out
}

// VideoPrices returns the prices of a video provider; nil: they are not known.
func (s *Settings) VideoPrices(provider string) *price.Series {
	for i := range s.Config.Video.Providers {
		if p := &s.Config.Video.Providers[i]; p.Name == provider {
			return s.videoPrices(p)
		}
	}
	return nil
}

func (s *Settings) videoPrices(p *config.VideoProvider) *price.Series {
	return s.Book.Find(s.Config.Video.ModelID, videoVendor(p.Kind), p.Model)
}

// videoVendor returns whose list has the prices of a kind of video provider; empty: only the operator knows them.
func videoVendor(kind string) string {
	if kind == "veo" {
		return "gemini"
	}
	return ""
}

// newVendor returns a client of a vendor. Kinds that are not listed are OpenAI's; config.Load refuses
// unknown ones.
func newVendor(p *config.VideoProvider) (video.Vendor, error) {
	switch key := p.APIKey.Reveal(); p.Kind {
	case "azure":
		return azure.New(p.BaseURL, key, p.Model)
	case "openrouter-video":
		return openrouter.New(p.BaseURL, key, p.Model)
	case "veo":
		return veo.New(p.BaseURL, key, p.Model)
	default:
		return openai.New(p.BaseURL, key, p.Model)
	}
}

// sandboxRenderer draws videos in this process; it needs no vendor.
type sandboxRenderer struct{}

// Render implements video.Renderer.

func (sandboxRenderer) Render(ctx context.Context, w io.Writer, t *video.Task) error {
	return clips.Render(ctx, w, clips.Spec{Prompt: t.Prompt, Width: t.Width, Height: t.Height, Seconds: t.Seconds}, t.Progress)
}

// credential returns a name for a vendor's account: a hash that differs from key to key and does not
// reveal the key. A job stores it, because only the account that started a job can fetch its result;
// see video.Engine.
func credential(p *config.VideoProvider) string {
	// The name of the provider is not part of it: an operator may rename it while jobs run. Eight
	// bytes are enough to tell the few keys of one operator apart.
	sum := sha256.Sum256([]byte(p.Kind + "\n" + p.BaseURL + "\n" + p.APIKey.Reveal()))
	return hex.EncodeToString(sum[:8])
}
