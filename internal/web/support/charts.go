package support

import (
	"fmt"
	"strings"
)

// series is one colour of a chart. Values of several series stand on each other.
type series struct {
	Name  string
	Class string // "main" or "bad"; see console.css
	Vals  []int64
}

// chart is a small bar chart over time in a row of a table. Each series is one SVG path.
type chart struct {
	Title  string
	Series []series
}

const chartWidth, chartHeight = 360.0, 100.0

// most returns the height of the highest bar.
func (c *chart) most() int64 {
	most := int64(0)
	for i := range c.length() {
		sum := int64(0)
		for _, s := range c.Series {
			sum += s.Vals[i]
		}
		most = max(most, sum)
	}
	return most
}

func (c *chart) length() int {
	if len(c.Series) == 0 {
		return 0
	}
	return len(c.Series[0].Vals)
}

// path returns the bars of one series as the path of an SVG of chartWidth by chartHeight.
func (c *chart) path(which int) string {
	most := float64(max(1, c.most()))
	step := chartWidth / float64(max(1, c.length()))
	var b strings.Builder
	for i, v := range c.Series[which].Vals {
		if v <= 0 {
			continue
		}
		below := int64(0)
		for _, s := range c.Series[:which] {
			below += s.Vals[i]
		}
		height := max(1, chartHeight*float64(v)/most)
		top := max(0, chartHeight-chartHeight*float64(below)/most-height)
		fmt.Fprintf(&b, "M%.1f %.1fh%.1fv%.1fh-%.1fz", float64(i)*step+step*0.1, top, step*0.8, height, step*0.8)
	}
	return b.String()
}

// column returns one value of each entry.
func column[T any](list []T, value func(*T) int64) []int64 {
	vals := make([]int64, len(list))
	for i := range list {
		vals[i] = value(&list[i])
	}
	return vals
}
