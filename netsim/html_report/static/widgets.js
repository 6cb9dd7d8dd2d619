"use strict";
// Elements, arrays and the parts without a canvas. Texts of results only ever become text nodes.

function el(tag, options, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "style") Object.assign(made.style, value);
    else made[name] = value;
  }
  made.append(...children.map((one) => (one instanceof Node ? one : String(one))));
  return made;
}

const TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, u2: Uint16Array, i4: Int32Array };

function numbers(packed) {
  const text = atob(packed.data), bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return new TYPES[packed.array](bytes.buffer);
}

function shown(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (typeof value !== "number") return String(value);
  if (value !== 0 && Math.abs(value) < 1e-6) return value.toExponential(2);
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

const tip = {
  show(event, text) {
    const box = document.getElementById("tip");
    box.textContent = text;
    box.style.display = "block";
    box.style.left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8) + "px";
    box.style.top = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8) + "px";
  },
  hide() { document.getElementById("tip").style.display = "none"; },
};

// Colors: pale yellow to dark red, for values from 0 to 1.
const STOPS = [[255, 237, 160], [253, 141, 60], [189, 0, 38], [77, 0, 19]];
const RAMP = Array.from({ length: 256 }, (_, k) => {
  const at = (k / 255) * (STOPS.length - 1), low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((one, c) => Math.round(one + (STOPS[low + 1][c] - one) * (at - low)));
});
const heat = (value) => "rgb(" + RAMP[Math.max(0, Math.min(255, Math.round(value * 255)))].join() + ")";

function ramp(low, high) {
  return el("span", { className: "key" }, low, el("span", { className: "ramp" }), high);
}

function key(names, colors) {
  const one = (name, k) => el("span", { className: "key" }, el("i", { style: { background: colors[k] } }), name);
  return el("div", {}, ...names.map(one));
}

function choice(names, act, label) {
  const box = el("select", { ariaLabel: label, on: { change: () => act(box.value) } },
    ...names.map((name) => el("option", { value: name }, name)));
  return box;
}

// A canvas as wide as its part; `draw(context, width, height)` runs now and when the width changes.
function canvas(height, draw) {
  const made = el("canvas", { className: "own" });
  made.redraw = () => {
    const width = made.clientWidth || 800, tall = typeof height === "function" ? height(width) : height;
    const scale = devicePixelRatio || 1;
    made.width = width * scale;
    made.height = tall * scale;
    made.style.height = tall + "px";
    const context = made.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    draw(context, width, tall);
  };
  let last = 0;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (made.clientWidth !== last) { last = made.clientWidth; made.redraw(); }
  })).observe(made);
  return made;
}

// Round numbers between two limits, about `count` of them.
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1) || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

const DRAW = {};

DRAW.tiles = (part) => el("div", { className: "tiles" }, ...part.tiles.map(([name, value, note]) =>
  el("div", { className: "tile" }, name, el("b", {}, value), el("span", { className: "soft" }, note))));

DRAW.code = (part) => {
  const text = el("pre", {}, part.text);
  const copy = el("button", { on: { click: () => {
    const range = document.createRange();
    range.selectNodeContents(text);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    copy.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl-C";
  } } }, "Copy");
  return el("div", {}, el("h3", {}, part.title, " ", copy), text);
};

DRAW.table = (part) => {
  const body = el("tbody", {}), order = part.rows.map((_, k) => k);
  let by = -1, down = true;
  const fill = () => body.replaceChildren(...order.map((k) => {
    const row = el("tr", {}, ...part.rows[k].map((cell) =>
      el("td", { className: typeof cell === "string" ? "" : "number" }, shown(cell))));
    if (part.links.length && part.links[k] >= 0) {
      row.className = "pick";
      row.addEventListener("click", () => {
        body.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
        row.classList.add("chosen");
        document.dispatchEvent(new CustomEvent("link", { detail: part.links[k] }));
      });
    }
    return row;
  }));
  const sort = (column) => {
    down = by === column ? !down : true;
    by = column;
    const value = (k) => part.rows[k][column];
    order.sort((a, b) => {
      const [one, other] = [value(a), value(b)];
      if (one === null || other === null) return (one === null) - (other === null);
      const sign = typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
      return down ? -sign : sign;
    });
    fill();
  };
  fill();
  const heads = part.columns.map((name, k) => el("th", { title: "Sort", on: { click: () => sort(k) } }, name));
  const more = part.all > part.rows.length ? [el("p", { className: "soft" }, `The first ${part.rows.length} of ${part.all}.`)] : [];
  const table = el("table", { className: "data" }, el("thead", {}, el("tr", {}, ...heads)), body);
  return el("div", {}, el("div", { className: "scroll" }, table), ...more);
};

DRAW.tree = (part) => {
  const line = (node) => [
    el("span", { className: "meter" }, el("i", { style: { width: 100 * node.share + "%" } })), node.text];
  const branch = (node, open) => node.children.length
    ? el("details", { open }, el("summary", {}, ...line(node)), ...node.children.map((one) => branch(one, false)))
    : el("div", { className: "leaf" }, ...line(node));
  return el("div", { className: "tree" }, ...part.roots.map((one, k) => branch(one, k < 2)));
};

DRAW.bars = (part) => {
  const names = part.categories.map((one) => one[0]), colors = part.categories.map((one) => one[1]);
  const total = (row) => row.values.reduce((sum, one) => sum + one, 0);
  const longest = Math.max(...part.rows.map(total)) || 1;
  const bar = (row) => {
    const strip = el("div", { className: "strip", on: { mouseleave: tip.hide } }, ...row.values.map((value, k) =>
      el("i", { style: { background: colors[k], width: (100 * value) / longest + "%" }, on: { mousemove: (event) =>
        tip.show(event, `${names[k]}: ${shown(value)} ${part.unit}, ${shown((100 * value) / total(row))} %`) } })));
    return el("div", { className: "bar" }, el("b", {}, row.title), strip, ...row.text.map((text) => el("p", {}, text)));
  };
  return el("div", {}, key(names, colors), ...part.rows.map(bar));
};

function drawn(part) {
  return el("div", { className: "part" }, DRAW[part.kind](part));
}
