package misses

import (
	"strings"
	"time"

	"sluice/internal/ledger/price"
)

// CacheOf returns what vendors say of the caches of their models, by the kind of the provider and its name of the model. Where one
// says nothing, a prompt of any length and age may be kept.
func CacheOf(kind, upstream string) Cache {
	switch {
	case price.FollowsCaches(kind, upstream):
		return Cache{Least: claudeLeast(upstream), Life: 5 * time.Minute, Marked: true}
	case kind == "openai" || kind == "azure":
		return Cache{Least: 1024, Life: 30 * time.Minute}
	case kind == "gemini":
		return Cache{Least: 1024}
	}
	return Cache{}
}

// claudeLeast returns how long a prompt for a model of Claude must be. Its small models keep only longer ones.
func claudeLeast(upstream string) int {
	if strings.Contains(upstream, "haiku") {
		return 2048
	}
	return 1024
}
