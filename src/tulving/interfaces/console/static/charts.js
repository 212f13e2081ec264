// Draws every [data-chart] with uPlot. Each page also has the numbers in a table, so nothing is missing without scripts.
//
// The attribute is JSON: title; x (labels) and, for a time scale, times (in seconds); series (name, values and an optional
// colour, the name of a custom property without dashes); kind (lines, bars or stacked). Optional: unit, low, high, links
// (a URL for each x), marks (x as an index or a time, and a label) and levels (y and a label).

const PLOTS = { bars: [0.72, 46], stacked: [0.72, 46] };
const drawn = new Map();
const probe = document.createElement("span");
probe.hidden = true;
document.documentElement.append(probe);

function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

function faint(color, share) {
  const parts = color.match(/[\d.]+/g).slice(0, 3);
  return `rgba(${parts.join(", ")}, ${share})`;
}

function written(number) {
  if (number === null || number === undefined) return "–";
  return number.toLocaleString("en", { maximumFractionDigits: 2 });
}

// Labels of a time axis: days, or minutes if days are wide.
function dated(plot, seconds, axis, space, step) {
  const wanted = step >= 86400 ? { day: "numeric", month: "short" } : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  if (step >= 28 * 86400) Object.assign(wanted, { day: undefined, year: "numeric" });
  const written = new Intl.DateTimeFormat("en-GB", { ...wanted, timeZone: "UTC" });
  return seconds.map((each) => written.format(each * 1000));
}

// The values of each series; if stacked, added to those below it, the topmost series first.
function laid(spec) {
  if (spec.kind !== "stacked") return spec.series.map((each) => each.values);
  const sums = spec.x.map(() => 0);
  const layers = spec.series.map((each) => each.values.map((value, at) => (sums[at] += value ?? 0)));
  return layers.reverse();
}

function shown(spec) {
  const series = spec.series.map((each, at) => ({ ...each, colour: each.colour ?? `series-${(at % 6) + 1}` }));
  return spec.kind === "stacked" ? series.reverse() : series;
}

function options(spec, frame, tip) {
  const bars = PLOTS[spec.kind];
  const font = `12px ${getComputedStyle(frame).fontFamily}`;
  const muted = colour("muted");
  const line = colour("line");
  const label = (at) => (Number.isInteger(at) ? spec.x[at] ?? "" : "");
  const axis = { stroke: muted, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 5 } };
  return {
    width: Math.max(frame.clientWidth, 120),
    height: Math.max(frame.clientHeight, 80),
    padding: [spec.marks || spec.levels ? 18 : 10, 24, 0, 0],
    legend: { show: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    cursor: { y: false, points: { show: !bars }, drag: { x: false, y: false } },
    scales: {
      x: spec.times ? { time: true } : { time: false, range: () => (bars ? [-0.5, spec.x.length - 0.5] : [0, Math.max(spec.x.length - 1, 1)]) },
      y: { range: (plot, low, high) => [spec.low ?? Math.min(0, low ?? 0), spec.high ?? (Math.max(high ?? 0, 0) * 1.08 || 1)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 64,
        size: 32,
        ...(spec.times ? { values: dated } : { incrs: [1, 2, 3, 5, 7, 10, 14, 20, 28, 50, 100, 200, 500, 1000], values: (plot, splits) => splits.map(label) }),
      },
      {
        ...axis,
        ticks: { show: false },
        size: (plot, values) => 16 + 7 * Math.max(2, ...(values ?? []).map((value) => value.length)),
        incrs: [...(bars ? [] : [0.05, 0.1, 0.2, 0.5]), 1, 2, 5].concat(...[1, 2, 3, 4, 5, 6, 7, 8].map((zeros) => [10 ** zeros, 2 * 10 ** zeros, 5 * 10 ** zeros])),
        values: (plot, splits) => splits.map(written),
      },
    ],
    series: [
      {},
      ...shown(spec).map((each) => {
        const color = colour(each.colour);
        const solid = { stroke: color, fill: color, width: 0, points: { show: false }, paths: bars && uPlot.paths.bars({ size: bars }) };
        return bars ? solid : { stroke: color, width: 2, fill: spec.series.length === 1 ? faint(color, 0.12) : undefined, points: { show: spec.x.length === 1 } };
      }),
    ],
    hooks: {
      setCursor: [(plot) => tell(plot, spec, tip)],
      draw: [
        (plot) => {
          for (const mark of spec.marks ?? []) {
            const x = plot.valToPos(mark.x, "x", true);
            rule(plot, [x, plot.bbox.top], [x, plot.bbox.top + plot.bbox.height], mark.label, font, muted);
          }
          for (const level of spec.levels ?? []) {
            const y = plot.valToPos(level.y, "y", true);
            rule(plot, [plot.bbox.left, y], [plot.bbox.left + plot.bbox.width, y], level.label, font, muted);
          }
        },
      ],
    },
  };
}

// A dashed line from one point to another with a label beside its beginning.
function rule(plot, from, to, label, font, color) {
  const { ctx, bbox } = plot;
  const upright = from[0] === to[0];
  if (upright ? from[0] < bbox.left || from[0] > bbox.left + bbox.width : from[1] < bbox.top || from[1] > bbox.top + bbox.height) return;
  const scale = uPlot.pxRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color;
  ctx.lineWidth = scale;
  ctx.setLineDash([4 * scale, 4 * scale]);
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
  ctx.font = font.replace("12px", `${11 * scale}px`);
  const width = ctx.measureText(label).width;
  const left = upright ? Math.min(Math.max(from[0] - width / 2, bbox.left), bbox.left + bbox.width - width) : bbox.left + bbox.width - width;
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  ctx.fillText(label, left, (upright ? bbox.top : from[1]) - 3 * scale);
  ctx.restore();
}

// The tooltip for the values under the pointer.
function tell(plot, spec, tip) {
  const at = plot.cursor.idx;
  tip.hidden = at === null || at === undefined || plot.cursor.left < 0;
  if (tip.hidden) return;
  const lines = spec.series.map((each, number) => {
    const row = document.createElement("span");
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.background = colour(each.colour ?? `series-${(number % 6) + 1}`);
    row.append(swatch, spec.series.length > 1 ? `${each.name} ` : "", written(each.values[at]), spec.series.length === 1 && spec.unit ? ` ${spec.unit}` : "");
    return row;
  });
  const head = document.createElement("b");
  head.textContent = spec.x[at];
  tip.replaceChildren(head, ...lines);
  const over = plot.over.getBoundingClientRect();
  const frame = tip.parentElement.getBoundingClientRect();
  const beside = over.left - frame.left + plot.valToPos(plot.data[0][at], "x");
  const left = beside + 12 + tip.offsetWidth > frame.width ? beside - 12 - tip.offsetWidth : beside + 12;
  tip.style.left = `${Math.max(0, left)}px`;
}

function draw(frame) {
  drop(frame);
  const spec = JSON.parse(frame.dataset.chart);
  if (!spec.x.length) return;
  frame.replaceChildren();
  const tip = document.createElement("div");
  tip.className = "chart-tip";
  tip.hidden = true;
  const plot = new uPlot(options(spec, frame, tip), [spec.times ?? spec.x.map((_, at) => at), ...laid(spec)], frame);
  frame.append(tip);
  if (spec.links) {
    plot.over.classList.add("chart-leads");
    plot.over.addEventListener("click", () => {
      const path = spec.links[plot.cursor.idx];
      if (path) location.assign(path);
    });
  }
  const size = new ResizeObserver(() => plot.setSize({ width: Math.max(frame.clientWidth, 120), height: Math.max(frame.clientHeight, 80) }));
  size.observe(frame);
  drawn.set(frame, { plot, size, told: frame.dataset.chart });
}

function drop(frame) {
  const made = drawn.get(frame);
  if (!made) return;
  made.size.disconnect();
  made.plot.destroy();
  drawn.delete(frame);
}

// Draws new charts and drops removed ones after a part of the page was swapped.
function review() {
  for (const frame of drawn.keys()) if (!frame.isConnected) drop(frame);
  for (const frame of document.querySelectorAll("[data-chart]")) {
    const made = drawn.get(frame);
    if (!made || made.told !== frame.dataset.chart || !frame.contains(made.plot.root)) draw(frame);
  }
}

const redraw = () => [...drawn.keys()].forEach(draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
new MutationObserver((changes) => {
  const concerns = (change) => change.type === "attributes" || change.removedNodes.length || [...change.addedNodes].some((node) => node.nodeType === 1 && (node.matches("[data-chart]") || node.querySelector("[data-chart]")));
  if (changes.some((change) => !change.target.closest?.(".chart") || change.type === "attributes") && changes.some(concerns)) review();
}).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-chart"] });
review();
