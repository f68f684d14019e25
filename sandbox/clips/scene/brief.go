package scene

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unicode"
)

// brief is what a prompt asks for, as far as its words are understood. What the prompt leaves open
// is chosen at random, seeded with a hash of the prompt: another prompt gives another picture, and
// the same prompt the same one.
type brief struct {
	family string
	hour   hour
	dawn   bool // a dusk in the morning: paler, and the sun rises
	// words holds the words of the prompt in lower case, with and without the ending of a plural.
	words map[string]bool
	speed float32 // how fast things move; 1 is gentle
	tint  *rgb    // a color that the prompt names; else nil
	// rng must be used in the same order for every rendering of a prompt.
	rng *rand.Rand
}

// hour is the light of a scene.
type hour int

const (
	day hour = iota
	dusk
	night
)

// String returns the word that is shown in a title.
func (h hour) String() string { return [...]string{"day", "dusk", "night"}[h] }

// families are the kinds of scenes, with the words that ask for them in three strengths: words that
// stand for a whole scene, places, and hints. So a place counts more than the weather in it. The
// characters in han are those that Chinese and Japanese prompts use; those languages put no spaces
// between words. If two families have the same score, the first one wins.
var families = []struct {
	name                  string
	strong, places, hints string
	han                   string
}{
	{"fire", "campfire bonfire volcano eruption lava", "fireplace", "fire flame flames ember burning dragon candle torch phoenix magma", "火焰炎"},
	{"sea", "lighthouse ocean", "sea beach coast shore island harbour harbor bay waves wave surf", "boat ship sail sailboat whale dolphin sand tide water lake river", "海洋浪湖"},
	{"mountains", "mountain alps himalaya everest", "peak summit valley cliff ridge canyon fjord", "hike climber eagle glacier rock", "山峰谷"},
	{"forest", "forest jungle woodland rainforest", "wood woods tree bamboo grove", "fox deer owl leaf leaves mushroom autumn fairy elf", "森林樹树竹"},
	{"city", "city skyline downtown tokyo manhattan metropolis", "street town bridge york paris london hongkong cyberpunk", "neon car traffic taxi tower building skyscraper robot rooftop", "城市街都"},
	{"desert", "desert sahara dunes dune", "pyramid oasis mesa arizona egypt", "camel cactus caravan sandstorm nomad", "沙漠"},
	{"space", "galaxy nebula cosmos universe spaceship astronaut", "space planet orbit mars saturn jupiter asteroid milky", "rocket comet alien ufo satellite", "宇宙星銀河银河"},
	{"rain", "rainstorm thunderstorm downpour monsoon umbrella", "", "rain rainy storm stormy thunder lightning drizzle puddle", "雨雷"},
	{"snow", "blizzard snowfall arctic antarctica", "village cabin igloo", "snow snowy winter ice frozen frost penguin christmas snowman polar aurora", "雪冬冰"},
	{"meadow", "meadow prairie lavender sunflower", "field farm garden hill hills countryside grassland pasture orchard", "flower grass butterfly bee horse cow sheep spring balloon windmill tulip poppy poppies", "草花野田"},
}

// hours are the words that ask for a light. The first entry that matches wins, so that "a starry
// evening" is a night.
var hours = []struct {
	hour  hour
	words string
	han   string
}{
	{night, "night midnight moon moonlit moonlight star stars starry starlit aurora dark darkness nocturnal neon", "夜月星"},
	{dusk, "dusk sunset evening twilight golden dawn sunrise daybreak autumn amber", "夕暮晨曙"},
	{day, "day noon sunny midday afternoon morning bright blue summer spring daylight", "昼晝晴朝日"},
}

// speeds are the words that ask for a speed. The last entry that matches wins.
var speeds = []struct {
	speed float32
	words string
}{
	{0.55, "slow slowly calm quiet still peaceful serene tranquil gentle lazy"},
	{1.7, "fast rushing racing wild storm stormy windy speeding rapid blizzard chase"},
	{2.4, "timelapse hyperlapse"},
}

// tints are the colors that a prompt may name. The first one in the prompt counts.
var tints = map[string]uint32{
	"red": 0xd8322a, "crimson": 0xb8123a, "orange": 0xf2862a, "golden": 0xf5b83a, "gold": 0xf5b83a, "yellow": 0xf5d742, "green": 0x3aa857,
	"emerald": 0x10996a, "teal": 0x149a9a, "turquoise": 0x2ac4c0, "blue": 0x2f6fd8, "indigo": 0x3d3aa8, "purple": 0x7d3ac0, "violet": 0x8a4ad0,
	"pink": 0xf27ab0, "magenta": 0xd03aa8, "lavender": 0xa98ae0, "silver": 0xb8c4d0,
}

// read reads a prompt.
func read(prompt string) *brief {
	lower := strings.ToLower(prompt)
	h := fnv.New64a()
	// FNV is stable across versions and platforms, and so is PCG. A change of either would change
	// every clip.
	h.Write([]byte(prompt))
	b := &brief{words: map[string]bool{}, speed: 1, rng: rand.New(rand.NewPCG(h.Sum64(), 20))}
	list := strings.FieldsFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, w := range list {
		b.words[w] = true
		// Plurals: waves is also wave, and marshes is also marsh.
		b.words[strings.TrimSuffix(w, "s")] = true
		b.words[strings.TrimSuffix(w, "es")] = true
		if c, ok := tints[w]; ok && b.tint == nil {
			tint := hex(c)
			b.tint = &tint
		}
	}
	b.chooseFamily(lower)
	b.chooseHour(lower)
	for _, s := range speeds {
		if b.has(s.words) {
			b.speed = s.speed
		}
	}
	return b
}

// has reports whether the prompt has one of the words, which are separated by spaces.
func (b *brief) has(words string) bool { return b.count(words) > 0 }

// count returns how many of the words the prompt has.
func (b *brief) count(words string) int {
	n := 0
	for w := range strings.FieldsSeq(words) {
		if b.words[w] {
			n++
		}
	}
	return n
}

// chooseFamily picks the family with the highest score. A prompt that matches none gets a random
// one.
func (b *brief) chooseFamily(lower string) {
	best := 0
	for _, f := range families {
		// A word that stands for a scene outweighs a place with one hint, and a place outweighs one
		// hint.
		score := 7*b.count(f.strong) + 4*b.count(f.places) + 2*b.count(f.hints)
		if strings.ContainsAny(lower, f.han) {
			score += 4
		}
		if score > best {
			best, b.family = score, f.name
		}
	}
	if best == 0 {
		b.family = families[b.rng.IntN(len(families))].name
	}
}

// chooseHour picks the hour that the words name, or else a random one. The random number is always
// drawn, so that the rest of the scene does not depend on whether the hour was named.
func (b *brief) chooseHour(lower string) {
	b.hour = hour(b.rng.IntN(3))
	for _, h := range hours {
		if b.has(h.words) || strings.ContainsAny(lower, h.han) {
			b.hour = h.hour
			break
		}
	}
	b.dawn = b.has("dawn sunrise daybreak morning")
}
