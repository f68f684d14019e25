package scene

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unicode"
)

// brief is what a prompt asks for, as far as its words are understood. What it leaves open is chosen by
// a hash of the prompt: another prompt is another picture, the same prompt the same.
type brief struct {
	family string
	hour   hour
	dawn   bool // at dusk: the morning's, paler
	words  map[string]bool
	speed  float32 // 1 is gentle
	tint   *rgb
	rng    *rand.Rand
}

type hour int

const (
	day hour = iota
	dusk
	night
)

func (h hour) String() string { return [...]string{"day", "dusk", "night"}[h] }

// families are the kinds of scenes, with the words that ask for them and how strongly: a place counts
// more than the weather in it, and some things stand for a whole scene. The characters at the end are
// what Chinese and Japanese prompts use; those languages put no spaces between words. Of two that are asked
// for alike, the first wins.
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

var hours = []struct {
	hour  hour
	words string
	han   string
}{
	{night, "night midnight moon moonlit moonlight star stars starry starlit aurora dark darkness nocturnal neon", "夜月星"},
	{dusk, "dusk sunset evening twilight golden dawn sunrise daybreak autumn amber", "夕暮晨曙"},
	{day, "day noon sunny midday afternoon morning bright blue summer spring daylight", "昼晝晴朝日"},
}

var speeds = []struct {
	speed float32
	words string
}{
	{0.55, "slow slowly calm quiet still peaceful serene tranquil gentle lazy"},
	{1.7, "fast rushing racing wild storm stormy windy speeding rapid blizzard chase"},
	{2.4, "timelapse hyperlapse"},
}

var tints = map[string]uint32{
	"red": 0xd8322a, "crimson": 0xb8123a, "orange": 0xf2862a, "golden": 0xf5b83a, "gold": 0xf5b83a, "yellow": 0xf5d742, "green": 0x3aa857,
	"emerald": 0x10996a, "teal": 0x149a9a, "turquoise": 0x2ac4c0, "blue": 0x2f6fd8, "indigo": 0x3d3aa8, "purple": 0x7d3ac0, "violet": 0x8a4ad0,
	"pink": 0xf27ab0, "magenta": 0xd03aa8, "lavender": 0xa98ae0, "silver": 0xb8c4d0,
}

// read understands a prompt.
func read(prompt string) *brief {
	lower := strings.ToLower(prompt)
	h := fnv.New64a()
	h.Write([]byte(prompt))
	b := &brief{words: map[string]bool{}, speed: 1, rng: rand.New(rand.NewPCG(h.Sum64(), 20))}
	list := strings.FieldsFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, w := range list {
		b.words[w] = true
		// Plurals: waves is wave, too, and marshes marsh.
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

// has reports whether the prompt has one of the words, given as one text.
func (b *brief) has(words string) bool { return b.count(words) > 0 }

func (b *brief) count(words string) int {
	n := 0
	for w := range strings.FieldsSeq(words) {
		if b.words[w] {
			n++
		}
	}
	return n
}

func (b *brief) chooseFamily(lower string) {
	best := 0
	for _, f := range families {
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
