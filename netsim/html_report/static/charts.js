"use strict";
// Line charts (uPlot) and heat maps.

const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C510A"];

const lineColor = (one, k) => one.color || PALETTE[k % PALETTE.length];

// Names of lines; a click hides or shows a line in all of the charts.
function lineKey(part, charts) {
  return el("div", { className: "lines" }, ...part.lines.map((one, k) => {
    const mark = el("canvas", { width: 34, height: 8 }), context = mark.getContext("2d");
    context.strokeStyle = lineColor(one, k);
    context.lineWidth = 3;
    context.setLineDash(one.dash);
    context.beginPath(); context.moveTo(0, 4); context.lineTo(34, 4); context.stroke();
    const entry = el("button", { title: "Show or hide", on: { click: () => {
      const show = entry.classList.toggle("off") === false;
      charts.forEach((box) => box.chart.setSeries(k + 1, { show }));
    } } }, mark, one.name);
    return entry;
  }));
}

// The value of a line at or before a position; lines have values at different positions.
function valueAt(values, at) {
  for (let k = at; k >= 0; k--) if (values[k] !== null && values[k] !== undefined) return values[k];
  return null;
}

function chartBox(part) {
  const tables = part.lines.map((one) => [Array.from(numbers(one.x)), Array.from(numbers(one.y))]);
  const data = tables.length === 1 ? tables[0] : uPlot.join(tables);
  const steps = uPlot.paths.stepped({ align: 1 });
  const series = part.lines.map((one, k) => ({
    label: one.name,
    stroke: lineColor(one, k),
    width: 1.7,
    dash: one.dash.length ? one.dash : undefined,
    paths: one.steps ? steps : undefined,
    spanGaps: true,
    points: { show: one.dots, size: 6 },
  }));
  const log = (letter) => part.log.includes(letter);
  const plain = (_, values) => values.map((value) => (value === null ? "" : shown(value)));
  const xAxis = { label: part.x, labelSize: 22, size: 34, values: plain };
  if (part.names.length) {
    xAxis.splits = () => part.names.map((_, k) => k);
    xAxis.values = () => part.names.map((name) => (name.length > 15 ? name.slice(0, 14) + "…" : name));
    if (part.names.join("").length > 40) { xAxis.rotate = -40; xAxis.size = 80; }
  }
  const hover = (chart) => {
    const { idx, left, top } = chart.cursor;
    if (idx === null || idx === undefined || left < 0) return tip.hide();
    const rows = part.lines.map((one, k) => ({ name: one.name, value: chart.series[k + 1].show ? valueAt(chart.data[k + 1], idx) : null }))
      .filter((one) => one.value !== null)
      .map((one) => ({ ...one, away: Math.abs(chart.valToPos(one.value, "y") - top) }))
      .sort((a, b) => a.away - b.away).slice(0, 6);
    const where = part.names.length ? part.names[Math.round(chart.data[0][idx])] : shown(chart.data[0][idx]);
    const box = chart.over.getBoundingClientRect();
    tip.show({ clientX: box.left + left, clientY: box.top + top },
      [`${part.x}: ${where}`, ...rows.map((one) => `${one.name}: ${shown(one.value)}`)].join("\n"));
  };
  const height = 250;
  const options = {
    width: 400, height: height + (xAxis.rotate ? 50 : 0), series: [{}, ...series], legend: { show: false },
    scales: {
      x: { time: false, distr: log("x") ? 3 : 1 },
      y: log("y") ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high * 1.04 || 1] },
    },
    axes: [xAxis, { label: part.y, labelSize: 22, size: 66, values: plain }],
    cursor: { focus: { prox: 20 }, points: { show: false } },
    focus: { alpha: 0.35 },
    hooks: { setCursor: [hover] },
  };
  const place = el("div", { on: { mouseleave: tip.hide } }), box = el("div", { className: "chart" }, el("h3", {}, part.title), place);
  let last = 0;
  // In the next frame: a chart changes the layout, which an observer must not.
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (!place.clientWidth || place.clientWidth === last) return;
    last = place.clientWidth;
    if (box.chart) box.chart.setSize({ width: last, height: options.height });
    else box.chart = new uPlot({ ...options, width: last }, data, place);
  })).observe(place);
  return box;
}

DRAW.chart = (part) => {
  const box = chartBox(part);
  return part.lines.length > 1 ? el("div", {}, lineKey(part, [box]), box) : box;
};

// Charts of the same lines have one key.
DRAW.grid = (part) => {
  const lines = (one) => JSON.stringify((one.lines || []).map((line) => [line.name, line.color, line.dash]));
  const groups = new Map();
  for (const one of part.parts) groups.set(lines(one), [...(groups.get(lines(one)) || []), one]);
  return el("div", {}, ...[...groups.values()].map((group) => {
    if (group[0].kind !== "chart") return el("div", { className: "grid" }, ...group.map(drawn));
    const boxes = group.map(chartBox);
    return el("div", {}, lineKey(group[0], boxes), el("div", { className: "grid" }, ...boxes));
  }));
};

DRAW.heatmap = (part) => {
  const times = numbers(part.times), count = part.rows.length, left = 110, bottom = 24;
  const tall = Math.max(1, Math.min(14, Math.floor(460 / count)));
  let name = Object.keys(part.values)[0], cells = numbers(part.values[name].cells), range = [0, times.length], from = null, to = null;
  const image = document.createElement("canvas"), below = el("div", {});
  const paint = () => {
    image.width = times.length;
    image.height = count;
    const context = image.getContext("2d"), pixels = context.createImageData(times.length, count);
    for (let k = 0; k < cells.length; k++) {
      const color = cells[k] ? RAMP[cells[k]] : [246, 247, 249];
      pixels.data.set(color, 4 * k);
      pixels.data[4 * k + 3] = 255;
    }
    context.putImageData(pixels, 0, 0);
  };
  const start = (k) => (k ? times[k - 1] : 0);
  const board = canvas(count * tall + bottom, (context, width, height) => {
    const wide = width - left, [a, b] = range;
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, a, 0, b - a, count, left, 0, wide, count * tall);
    context.fillStyle = "#5b6675";
    context.textAlign = "right";
    const every = Math.ceil(12 / tall);
    for (let k = 0; k < count; k += every) context.fillText(part.rows[k].slice(0, 17), left - 5, k * tall + Math.min(tall, 11) + (tall > 12 ? 0 : 1), left - 8);
    context.textAlign = "center";
    const low = start(a), high = times[b - 1];
    for (const one of ticks(low, high, 8)) context.fillText(shown(one), left + (wide * (one - low)) / (high - low), height - 8);
    context.textAlign = "right";
    context.fillText(part.unit, width, height - 8);
    if (from !== null) { context.fillStyle = "#0072b233"; context.fillRect(Math.min(from, to), 0, Math.abs(to - from), count * tall); }
  });
  const at = (event) => {
    const box = board.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const k = range[0] + Math.floor(((x - left) / (box.width - left)) * (range[1] - range[0])), row = Math.floor(y / tall);
    return { x, row, k, inside: x >= left && k < range[1] && row >= 0 && row < count };
  };
  const value = (row, k) => (cells[row * times.length + k] / 255) * part.values[name].top;
  const line = (row) => {
    const ys = Array.from({ length: times.length }, (_, k) => value(row, k));
    const f8 = (list) => ({ array: "f8", data: btoa(String.fromCharCode(...new Uint8Array(new Float64Array(list).buffer))) });
    const chart = { kind: "chart", title: part.rows[row], x: `time (${part.unit})`, y: name, log: "", names: [],
      lines: [{ name, x: part.times, y: f8(ys), color: "#0072B2", dash: [], steps: false, dots: false }] };
    below.replaceChildren(drawn(chart));
  };
  board.addEventListener("pointerdown", (event) => { from = to = at(event).x; board.setPointerCapture(event.pointerId); });
  board.addEventListener("pointermove", (event) => {
    const spot = at(event);
    if (from !== null) { to = spot.x; board.redraw(); }
    if (spot.inside) tip.show(event, `${part.rows[spot.row]}, until ${shown(times[spot.k])} ${part.unit}\n${name}: ${shown(value(spot.row, spot.k))}`);
    else tip.hide();
  });
  board.addEventListener("pointerup", (event) => {
    const spot = at(event), begin = from;
    from = null;
    if (begin !== null && Math.abs(spot.x - begin) > 6) {
      const wide = board.clientWidth - left, [a, b] = range;
      const ends = [begin, spot.x].sort((p, q) => p - q).map((x) => a + ((x - left) / wide) * (b - a));
      const low = Math.max(a, Math.floor(ends[0])), high = Math.min(b, Math.ceil(ends[1]));
      if (high - low >= 2) range = [low, high];
    } else if (spot.inside) line(spot.row);
    board.redraw();
  });
  board.addEventListener("pointerleave", tip.hide);
  board.addEventListener("dblclick", () => { range = [0, times.length]; board.redraw(); });
  const scale = el("span", {});
  const pick = (chosen) => {
    name = chosen;
    cells = numbers(part.values[name].cells);
    scale.replaceChildren(ramp("0", shown(part.values[name].top)));
    paint();
    board.redraw();
  };
  const tools = el("div", { className: "tools" }, choice(Object.keys(part.values), pick, "quantity"), scale,
    el("span", { className: "soft" }, "drag to zoom, double-click to reset"));
  pick(name);
  return el("div", {}, el("h3", {}, part.title), tools, board, below);
};
