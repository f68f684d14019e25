package misses

import (
	"time"

	"sluice/internal/ledger/price"
)

// CacheOf returns what vendors say of the caches of their models, by the kind of the provider and its name of the model. Where one
// says nothing, a prompt of any length and age may be kept. claude returns how long a prompt of a Claude must be to be kept.
func CacheOf(kind, upstream string, claude func(upstream string) (least int, hour bool)) Cache {
	switch {
	case price.FollowsCaches(kind, upstream):
		least, _ := claude(upstream)
		return Cache{Least: least, Life: 5 * time.Minute, Marked: true}
	case kind == "openai" || kind == "azure":
		return Cache{Least: 1024, Life: 30 * time.Minute}
	case kind == "gemini":
		return Cache{Least: 1024}
	}
	return Cache{}
}
