package webui

import "fmt"

// Bar is one bar of a chart.
type Bar struct {
	Value int64
	Title string // what a pointer on it shows
}

// placedBar is a bar in an SVG of 300 by 100 units. Coordinates are text because they go into attributes.
type placedBar struct {
	x, y, width, height string
	none                bool
	title               string
}

// placed lays out bars. One without a value keeps a thin line, and one with a small value is clearly taller than that.
func placed(bars []Bar) []placedBar {
	most := int64(1) // so that values of zero do not divide by zero
	for _, b := range bars {
		most = max(most, b.Value)
	}
	out := make([]placedBar, len(bars))
	step := 300.0 / float64(max(1, len(bars)))
	for i, b := range bars {
		height := 2.0
		if b.Value > 0 {
			height = max(3, 100*float64(b.Value)/float64(most))
		}
		out[i] = placedBar{
			x: fmt.Sprintf("%.2f", float64(i)*step+step*0.15), y: fmt.Sprintf("%.2f", 100-height),
			width: fmt.Sprintf("%.2f", step*0.7), height: fmt.Sprintf("%.2f", height), none: b.Value == 0, title: b.Title,
		}
	}
	return out
}
