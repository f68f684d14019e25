package scene

import "math"

// rgb is a gamma-encoded color as screens use it. Each part is from 0 to 1.
type rgb struct{ r, g, b float32 }

// hex returns the color 0xRRGGBB.
func hex(v uint32) rgb {
	return rgb{float32(v>>16&255) / 255, float32(v>>8&255) / 255, float32(v&255) / 255}
}

// mix goes from a at t = 0 to b at t = 1.
func mix(a, b rgb, t float32) rgb {
	return rgb{a.r + (b.r-a.r)*t, a.g + (b.g-a.g)*t, a.b + (b.b-a.b)*t}
}

// add lays light over a color. The result is never brighter than white.
func add(a, light rgb, t float32) rgb {
	t = min(t, 1)
	return rgb{a.r + (1-a.r)*light.r*t, a.g + (1-a.g)*light.g*t, a.b + (1-a.b)*light.b*t}
}

// scale makes a color darker or brighter, pale mixes it with white, and dark with black.
func scale(a rgb, t float32) rgb { return rgb{a.r * t, a.g * t, a.b * t} }
func pale(a rgb, t float32) rgb  { return mix(a, rgb{1, 1, 1}, t) }
func dark(a rgb, t float32) rgb  { return scale(a, 1-t) }

// clamp limits a value to 0 to 1.
func clamp(v float32) float32 { return max(0, min(1, v)) }

// smooth rises from 0 at a to 1 at b, without corners (a smoothstep). It falls if a is greater than
// b.
func smooth(a, b, v float32) float32 {
	t := clamp((v - a) / (b - a))
	return t * t * (3 - 2*t)
}

// These compute in float64 and round to float32.
func sin(v float32) float32  { return float32(math.Sin(float64(v))) }
func cos(v float32) float32  { return float32(math.Cos(float64(v))) }
func sqrt(v float32) float32 { return float32(math.Sqrt(float64(v))) }
func exp(v float32) float32  { return float32(math.Exp(float64(v))) }

func square(v float32) float32 { return v * v }

// floor is faster than math.Floor. The value must fit into an int32.
func floor(v float32) float32 {
	i := float32(int32(v))
	if i > v {
		i--
	}
	return i
}

func abs(v float32) float32 {
	if v < 0 {
		return -v
	}
	return v
}

// turn rotates the hue of a color by a part of the color wheel, from 0 to 1.
func turn(c rgb, by float32) rgb {
	angle := 2 * math.Pi * by
	co, si := cos(angle), sin(angle)
	// A rotation around the gray axis (1, 1, 1); 0.57735 is 1/√3.
	k := (1 - co) / 3
	s := si * 0.57735
	return rgb{
		clamp(c.r*(co+k) + c.g*(k-s) + c.b*(k+s)),
		clamp(c.r*(k+s) + c.g*(co+k) + c.b*(k-s)),
		clamp(c.r*(k-s) + c.g*(k+s) + c.b*(co+k)),
	}
}

// video is a color as the encoder takes it (Y'CbCr, BT.709, limited range), in 1/65536.
type video struct{ y, u, v int32 }

// video converts a color. The factors are those of BT.709: 219 levels for luma from 16 on, and 224
// for chroma around 128.
func (c rgb) video() video {
	const one = 65536
	return video{
		int32(one * (16 + 46.559*c.r + 156.629*c.g + 15.812*c.b)),
		int32(one * (128 - 25.664*c.r - 86.336*c.g + 112*c.b)),
		int32(one * (128 + 112*c.r - 101.730*c.g - 10.270*c.b)),
	}
}
