// Draws the chart of daily usage. The figures come from the table on the same page, which screen readers use instead
// of the chart.
(() => {
  "use strict";

  const box = document.querySelector("[data-chart]");
  if (!box) return;
  const rows = [...document.querySelectorAll("#" + box.dataset.chart + " tbody tr")];
  const column = (name) => rows.map((row) => Number(row.dataset[name]));
  const days = column("day");
  const whole = (n) => new Intl.NumberFormat().format(n);
  const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

  // The metrics a reader can choose. lines are [label, data attribute, CSS colour variable]; axis and value format a
  // number on the axis and in the legend; whole allows only whole numbers as axis steps.
  const measures = {
    requests: { lines: [["Requests", "requests", "--accent"], ["Failed or cut off", "failed", "--bad"]], axis: (n) => short.format(n), value: whole, bars: true, whole: true },
    tokens: { lines: [["Input", "prompt", "--accent"], ["Output", "completion", "--good"]], axis: (n) => short.format(n), value: whole },
    cost: { lines: [["Cost", "cost", "--accent"]], axis: (n) => "$" + short.format(n), value: (n) => "$" + n, bars: true },
    latency: { lines: [["Full response", "latency", "--accent"], ["First token", "first", "--good"]], axis: (n) => short.format(n) + " ms", value: (n) => whole(n) + " ms" },
  };

  const steps = [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((power) => n * 10 ** power)).sort((a, b) => a - b);

  // draw builds the chart again from scratch: uPlot cannot change its series or colours.
  let plot;
  function draw() {
    const measure = measures[document.querySelector("[data-measure]").value];
    const style = getComputedStyle(document.body);
     // uPlot draws on a canvas, which cannot use CSS variables. A temporary element resolves the variable for
    // the current theme.
    const colour = (name) => {
      const probe = document.createElement("i");
      probe.style.color = "var(" + name + ")";
      box.append(probe);
      const is = getComputedStyle(probe).color;
      probe.remove();
      return is;
    };
    const text = colour("--muted"), line = colour("--line");
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px " + style.fontFamily };
    const data = [days, ...measure.lines.map(([, name]) => column(name))];
    if (plot) plot.destroy();
    plot = new uPlot({
      width: box.clientWidth,
      height: 240,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { y: false, points: { size: 6 } },
      // Half a day of space on both sides keeps the first and last bars inside the chart.
      scales: { x: { range: (_, min, max) => [min - 43200, max + 43200] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [
        { ...axis, grid: { show: false }, values: [[86400, "{D} {MMM}", null, null, null, null, null, null, 1]] },
        { ...axis, size: 64, incrs: measure.whole ? steps : undefined, values: (_, ticks) => ticks.map(measure.axis) },
      ],
      series: [
        { label: "Day", value: (_, at) => at == null ? "–" : new Date(at * 1000).toISOString().slice(0, 10) },
        ...measure.lines.map(([label, , name]) => ({
          label,
          stroke: colour(name),
          fill: measure.bars ? colour(name) : undefined,
          width: measure.bars ? 0 : 2,
          points: { show: false },
          paths: measure.bars ? uPlot.paths.bars({ size: [0.65, 40], radius: 0.2 }) : undefined,
          value: (_, n) => n == null ? "–" : measure.value(n),
        })),
      ],
    }, data, box);
  }

  document.querySelector("[data-measure]").addEventListener("change", draw);
  document.addEventListener("themechange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(() => { if (plot && plot.width !== box.clientWidth) plot.setSize({ width: box.clientWidth, height: 240 }); }).observe(box);
  draw();
})();
