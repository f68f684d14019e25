package scene

import "testing"

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		prompt string
		family string
		hour   hour
		speed  float32
	}{
		{"a lighthouse at dusk", "sea", dusk, 1},
		{"Calm OCEAN, sunny day", "sea", day, 0.55},
		{"moonlight over the mountains", "mountains", night, 1},
		{"a campfire in the forest at night", "fire", night, 1},
		{"rainy street in the evening, someone with an umbrella", "rain", dusk, 1},
		{"the city in the rain at night", "city", night, 1},
		{"snow on pine trees in the forest, morning", "forest", day, 1},
		{"first snow on a winter day", "snow", day, 1},
		{"a stormy desert at noon", "desert", day, 1.7},
		{"astronaut on mars", "space", -1, 1},
		{"a timelapse of a meadow at sunrise", "meadow", dusk, 2.4},
		{"start of the season", "", -1, 1}, // neither a star nor the sea
		{"夜の海", "sea", night, 1},
		{"雪山", "mountains", -1, 1},
	} {
		b := read(tt.prompt)
		if tt.family != "" && b.family != tt.family {
			t.Errorf("read(%q).family = %s, want %s", tt.prompt, b.family, tt.family)
		}
		if tt.hour >= 0 && b.hour != tt.hour {
			t.Errorf("read(%q).hour = %s, want %s", tt.prompt, b.hour, tt.hour)
		}
		if b.speed != tt.speed {
			t.Errorf("read(%q).speed = %v, want %v", tt.prompt, b.speed, tt.speed)
		}
	}
}

// TestReadOpenPrompts checks that prompts without a known word are spread over all families and hours.
func TestReadOpenPrompts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'z'; b++ {
			got := read("xq" + string(a) + string(b))
			seen[got.family], seen[got.hour.String()] = true, true
		}
	}
	if want := len(families) + 3; len(seen) != want {
		t.Errorf("families and hours of 676 unknown words = %v, want all %d", seen, want)
	}
}

func TestEveryFamilyIsComplete(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		if builders[f.name] == nil {
			t.Errorf("family %s has no builder", f.name)
		}
		if _, ok := palettes[f.name]; !ok {
			t.Errorf("family %s has no palettes", f.name)
		}
	}
	if len(builders) != len(families) || len(palettes) != len(families) {
		t.Errorf("there are %d builders and %d palettes, want %d of each", len(builders), len(palettes), len(families))
	}
}

func TestTint(t *testing.T) {
	t.Parallel()
	red, plain := read("a red sea at noon"), read("a sea at noon")
	if red.tint == nil || plain.tint != nil {
		t.Fatalf("tints = %v and %v, want one for red alone", red.tint, plain.tint)
	}
	if r, p := red.colors().sky, plain.colors().sky; r.r <= p.r || r.b >= p.b {
		t.Errorf("sky of a red sea = %v, want more red and less blue than %v", r, p)
	}
}
