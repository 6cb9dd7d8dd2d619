"use strict";
// The network: half of each line is the link that starts at its end, colored by a quantity.

DRAW.network = (part) => {
  const [x, y, hosts, ends, links, failed] = [part.x, part.y, part.hosts, part.ends, part.links, part.failed].map(numbers);
  const lines = ends.length / 2, titles = Object.keys(part.values), pad = 34;
  const frames = part.frames && { times: numbers(part.frames.times), halves: numbers(part.frames.halves), cells: numbers(part.frames.cells) };
  const NOW = "utilization over time (%)";
  let title = titles[0], values = null, top = 1, order = null, marked = -1, frame = 0, view = { scale: 1, x: 0, y: 0 }, drag = null;
  const broken = new Set(failed);
  const back = document.createElement("canvas");

  const spot = (node, width, height) => [
    (pad + x[node] * (width - 2 * pad)) * view.scale + view.x, (pad + y[node] * (height - 2 * pad)) * view.scale + view.y];
  const half = (k, width, height) => {
    const line = k >> 1, a = spot(ends[2 * line], width, height), b = spot(ends[2 * line + 1], width, height);
    const from = k & 1 ? b : a, middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    return [from, middle];
  };
  const pick = (name) => {
    title = name;
    if (name === NOW) {
      top = 100;
      values = new Float32Array(2 * lines);
      const width = frames.times.length;
      frames.halves.forEach((k, row) => { values[k] = frames.cells[row * width + frame] / 2.55; });
    } else {
      top = part.values[name].top || 1;
      values = numbers(part.values[name].of);
    }
    order = Uint32Array.from(values.keys()).sort((a, b) => values[a] - values[b]);
  };
  const paint = (context, width, height) => {
    context.clearRect(0, 0, width, height);
    const thick = lines > 3000 ? 0.6 : lines > 600 ? 1 : 1.6;
    const color = (k) => (values[k] > 0 ? heat(title.startsWith("utilization") ? values[k] / top : Math.sqrt(values[k] / top)) : "#dde1e6");
    let style = null;
    for (const k of order) {  // equal colors share a path
      const now = color(k);
      if (now !== style) {
        if (style !== null) context.stroke();
        context.beginPath();
        context.strokeStyle = style = now;
        context.lineWidth = values[k] > 0 ? thick * (1 + values[k] / top) : thick * 0.7;
      }
      const [[ax, ay], [bx, by]] = half(k, width, height);
      context.moveTo(ax, ay);
      context.lineTo(bx, by);
    }
    if (style !== null) context.stroke();
    context.font = "bold 14px sans-serif";
    context.fillStyle = "#0072b2";
    for (const line of broken) {
      const [, [mx, my]] = half(2 * line, width, height);
      context.fillText("×", mx - 4, my + 5);
    }
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    context.textAlign = "center";
    const rows = new Map();
    for (let node = 0; node < x.length; node++) rows.set(y[node], [...(rows.get(y[node]) || []), node]);
    for (let node = 0; node < x.length; node++) {
      const [px, py] = spot(node, width, height), size = x.length > 300 ? 2 : x.length > 120 ? 3 : 5;
      context.fillStyle = hosts[node] ? "#5b6675" : "#1c2430";
      context.fillRect(px - size, py - size, 2 * size, 2 * size);
    }
    for (const row of rows.values()) {  // as many names as have room
      const room = ((width - 2 * pad) * view.scale) / row.length, names = row.map((node) => part.names[node].slice(0, 18));
      const every = Math.ceil((Math.max(...names.map((name) => context.measureText(name).width)) + 6) / room);
      row.sort((a, b) => x[a] - x[b]);
      for (let k = 0; k < row.length; k += every) {
        const [px, py] = spot(row[k], width, height), below = y[row[k]] > 0.75;
        context.strokeStyle = "#fff";  // names stand above lines
        context.lineWidth = 4;
        context.lineJoin = "round";
        context.fillStyle = "#1c2430";
        const text = [part.names[row[k]].slice(0, 18), px, below ? py + 17 : py - 8];
        context.strokeText(...text);
        context.fillText(...text);
      }
    }
  };
  const highlight = (context, width, height) => {
    if (marked < 0) return;
    const [a, b] = half(marked, width, height), all = spot(ends[2 * (marked >> 1) + (marked & 1 ? 0 : 1)], width, height);
    context.strokeStyle = "#0072b2";
    context.lineWidth = 1.5;
    context.beginPath(); context.moveTo(...a); context.lineTo(...all); context.stroke();
    context.lineWidth = 5;
    context.beginPath(); context.moveTo(...a); context.lineTo(...b); context.stroke();
    context.textAlign = "center";
    context.fillStyle = "#0072b2";
    context.font = "bold 12px sans-serif";
    const here = part.names[ends[2 * (marked >> 1) + (marked & 1)]], there = part.names[ends[2 * (marked >> 1) + (marked & 1 ? 0 : 1)]];
    context.fillText(`${here} → ${there}`, Math.max(90, Math.min(width - 90, b[0])), Math.max(14, b[1] - 8));
  };
  let stale = true;
  const board = canvas((width) => Math.round(Math.min(560, Math.max(320, width * 0.42))), (context, width, height) => {
    const scale = devicePixelRatio || 1;
    if (stale || back.width !== width * scale) {  // lines are drawn once, marks on top of the copy
      back.width = width * scale;
      back.height = height * scale;
      const own = back.getContext("2d");
      own.scale(scale, scale);
      paint(own, width, height);
      stale = false;
    }
    context.drawImage(back, 0, 0, width, height);
    highlight(context, width, height);
  });
  const redraw = () => { stale = true; board.redraw(); };
  const nearest = (px, py) => {
    const width = board.clientWidth, height = board.clientHeight;
    let best = -1, least = 64;
    for (let k = 0; k < 2 * lines; k++) {
      if (!links[k]) continue;
      const [[ax, ay], [bx, by]] = half(k, width, height), dx = bx - ax, dy = by - ay;
      const t = Math.max(0, Math.min(1, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1)));
      const away = (px - ax - t * dx) ** 2 + (py - ay - t * dy) ** 2 - (values[k] / top) * 1e-3;
      if (away < least) { least = away; best = k; }
    }
    return best;
  };
  const node = (px, py) => {
    const width = board.clientWidth, height = board.clientHeight;
    for (let k = 0; k < x.length; k++) {
      const [nx, ny] = spot(k, width, height);
      if (Math.abs(nx - px) < 6 && Math.abs(ny - py) < 6) return k;
    }
    return -1;
  };
  board.addEventListener("pointerdown", (event) => { drag = [event.clientX - view.x, event.clientY - view.y]; });
  board.addEventListener("pointermove", (event) => {
    if (drag && event.buttons) { view.x = event.clientX - drag[0]; view.y = event.clientY - drag[1]; redraw(); return; }
    const box = board.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const over = node(px, py), k = over < 0 ? nearest(px, py) : -1;
    if (over >= 0) tip.show(event, part.names[over]);
    else if (k >= 0) {
      const line = k >> 1, side = k & 1, many = links[k] > 1 ? ` (${links[k]} links)` : "";
      const told = titles.map((name) => `${name}: ${shown(numbers(part.values[name].of)[k])}`);
      tip.show(event, `${part.names[ends[2 * line + side]]} → ${part.names[ends[2 * line + 1 - side]]}${many}\n${told.join("\n")}`);
    } else tip.hide();
  });
  board.addEventListener("pointerup", () => { drag = null; });
  board.addEventListener("pointerleave", tip.hide);
  board.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;  // the page scrolls
    event.preventDefault();
    const box = board.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const by = event.deltaY + event.deltaX < 0 ? 1.25 : 0.8, next = Math.max(1, Math.min(40, view.scale * by)), ratio = next / view.scale;
    view = next === 1 ? { scale: 1, x: 0, y: 0 } : { scale: next, x: px - (px - view.x) * ratio, y: py - (py - view.y) * ratio };
    redraw();
  }, { passive: false });
  board.addEventListener("dblclick", () => { view = { scale: 1, x: 0, y: 0 }; redraw(); });
  board.mark = (k) => { marked = k; board.redraw(); };
  const scale = el("span", {}), clock = el("span", { className: "soft" }), slider = el("input", { type: "range", min: 0, value: 0, ariaLabel: "time" });
  const tools = el("div", { className: "tools" });
  const show = (name) => {
    pick(name);
    scale.replaceChildren(ramp("0", shown(top)));
    slider.style.display = clock.style.display = name === NOW ? "" : "none";
    if (name === NOW) clock.textContent = `until ${shown(frames.times[frame])} ${part.frames.unit}`;
    redraw();
  };
  if (frames) {
    slider.max = frames.times.length - 1;
    slider.addEventListener("input", () => { frame = Number(slider.value); show(NOW); });
  }
  tools.append(choice(frames ? [...titles, NOW] : titles, show, "color of links"), scale, slider, clock,
    el("span", { className: "soft" }, (broken.size ? "× failed; " : "") + "Ctrl-wheel to zoom, drag to move, double-click to reset"));
  if (titles.length) show(title);
  else values = new Float32Array(2 * lines), order = Uint32Array.from(values.keys());
  return el("div", { className: "network" }, tools, board);
};
