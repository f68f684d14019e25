package webui

// Bar is one bar of a small chart.
type Bar struct {
	Value int64
	Name  string // what it stands for, such as a day
	Short string // its name on the axis; empty: Name
	Text  string // the value as a tooltip shows it
}

// barChart returns the chart of some bars.
func barChart(label string, bars []Bar, axis func(int64) string) *Chart {
	c := &Chart{Label: label, Low: true, Whole: true, Format: axis, Axis: axis, Series: []ChartSeries{{Class: "c0"}}}
	for _, b := range bars {
		c.Steps = append(c.Steps, ChartStep{Name: b.Name, Short: b.Short, Text: b.Text})
		c.Series[0].Values = append(c.Series[0].Values, b.Value)
	}
	return c
}
