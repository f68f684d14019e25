package scene

import "math"

// rgb is a colour as screens have it (gamma-encoded), each part from 0 to 1.
type rgb struct{ r, g, b float32 }

func hex(v uint32) rgb {
	return rgb{float32(v>>16&255) / 255, float32(v>>8&255) / 255, float32(v&255) / 255}
}

func mix(a, b rgb, t float32) rgb {
	return rgb{a.r + (b.r-a.r)*t, a.g + (b.g-a.g)*t, a.b + (b.b-a.b)*t}
}

// add lays light over a colour; it never gets brighter than white.
func add(a, light rgb, t float32) rgb {
	t = min(t, 1)
	return rgb{a.r + (1-a.r)*light.r*t, a.g + (1-a.g)*light.g*t, a.b + (1-a.b)*light.b*t}
}

func scale(a rgb, t float32) rgb { return rgb{a.r * t, a.g * t, a.b * t} }

func clamp(v float32) float32 { return max(0, min(1, v)) }

// smooth rises from 0 at a to 1 at b, without corners; a may be the greater.
func smooth(a, b, v float32) float32 {
	t := clamp((v - a) / (b - a))
	return t * t * (3 - 2*t)
}

func sin(v float32) float32  { return float32(math.Sin(float64(v))) }
func cos(v float32) float32  { return float32(math.Cos(float64(v))) }
func sqrt(v float32) float32 { return float32(math.Sqrt(float64(v))) }
func exp(v float32) float32  { return float32(math.Exp(float64(v))) }
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

// turn moves the hue of a colour by a part of the circle.
func turn(c rgb, by float32) rgb {
	angle := 2 * math.Pi * by
	co, si := cos(angle), sin(angle)
	// A rotation around the grey axis.
	k := (1 - co) / 3
	s := si * 0.57735
	return rgb{
		clamp(c.r*(co+k) + c.g*(k-s) + c.b*(k+s)),
		clamp(c.r*(k+s) + c.g*(co+k) + c.b*(k-s)),
		clamp(c.r*(k-s) + c.g*(k+s) + c.b*(co+k)),
	}
}

// video is a colour as the encoder takes it (BT.709, limited range), with fractions of 1/65536.
type video struct{ y, u, v int32 }

func (c rgb) video() video {
	const one = 65536
	return video{
		int32(one * (16 + 46.559*c.r + 156.629*c.g + 15.812*c.b)),
		int32(one * (128 - 25.664*c.r - 86.336*c.g + 112*c.b)),
		int32(one * (128 + 112*c.r - 101.730*c.g - 10.270*c.b)),
	}
}
