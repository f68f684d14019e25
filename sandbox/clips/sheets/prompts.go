package main

// prompts are the twenty clips that docs/video shows, two for each family of scenes.
var prompts = []struct{ name, prompt string }{
	{"lighthouse", "a lighthouse at dusk"},
	{"island", "palm trees on a tropical island beach, bright summer day"},
	{"alps", "snowy mountain peaks above a misty valley at sunrise"},
	{"lake", "moonlight over a mountain lake, calm night"},
	{"woods", "sunlight falls through a green forest in the morning, bright day"},
	{"fireflies", "fireflies over a misty pine forest at night"},
	{"skyline", "neon city skyline by the river at midnight"},
	{"town", "city traffic under a pink sunset"},
	{"caravan", "a camel caravan crosses golden sahara dunes at sunset"},
	{"cactus", "cactus and mesas in the arizona desert at noon"},
	{"nebula", "a purple nebula in a distant galaxy"},
	{"saturn", "a rocket flies past a ringed planet, saturn"},
	{"umbrella", "rainy street in the evening, someone with an umbrella"},
	{"storm", "a thunderstorm with lightning at night"},
	{"cabin", "a cabin in the snow under the aurora, winter night"},
	{"snowfall", "gentle snowfall on a quiet winter day"},
	{"campfire", "a campfire crackles under the stars"},
	{"volcano", "a volcano erupts, rivers of lava at dusk"},
	{"balloons", "hot air balloons over a flower meadow on a sunny day"},
	{"lavender", "lavender field with a windmill in the golden evening, dreamy"},
}
