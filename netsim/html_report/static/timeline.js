"use strict";
// A timeline: a row per stream, a bar per task, and the critical path as a line.

DRAW.timeline = (part) => {
  const [start, end, row, place, category] = [part.start, part.end, part.row, part.place, part.category].map(numbers);
  const [pathX, pathY] = [part.path_x, part.path_y].map(numbers);
  const left = 150, tall = Math.max(11, Math.min(20, Math.floor(520 / part.rows.length))), bottom = 24;
  const APART = 8;  // pixels
  const PLACES = [[0.08, 0.84], [0.08, 0.42], [0.5, 0.42]];
  let range = [part.from, part.to], drag = null;
  const scaleX = (time, width) => left + ((time - range[0]) / (range[1] - range[0])) * (width - left);
  const board = canvas(part.rows.length * tall + bottom, (context, width, height) => {
    context.clearRect(0, 0, width, height);
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, height);
    context.clip();
    for (let c = 0; c < part.categories.length; c++) {
      context.fillStyle = part.colors[c];
      for (let k = 0; k < start.length; k++) {
        if (category[k] !== c || end[k] < range[0] || start[k] > range[1]) continue;
        const a = scaleX(start[k], width), b = scaleX(end[k], width), [top, part_] = PLACES[place[k]];
        context.fillRect(a, (row[k] + top) * tall, Math.max(0.7, b - a), part_ * tall);
      }
    }
    for (const [color, thick] of [["#fff", 3], ["#000", 1.2]]) {
      context.strokeStyle = color;
      context.lineWidth = thick;
      context.beginPath();
      let last = null, between = -Infinity;
      for (let k = 0; k < pathX.length; k++) {
        if (Number.isNaN(pathY[k])) { last = null; continue; }
        const spot = [scaleX(pathX[k], width), (pathY[k] + 0.5) * tall], joins = last && spot[1] !== last[1];
        // Lines between rows that are too close to tell apart would be a block: one of them stands for all.
        if (last && (!joins || spot[0] - between >= APART)) context.lineTo(...spot); else context.moveTo(...spot);
        if (joins && spot[0] - between >= APART) between = spot[0];
        last = spot;
      }
      context.stroke();
    }
    context.restore();
    context.fillStyle = "#5b6675";
    context.font = "10.5px system-ui, 'DejaVu Sans', sans-serif";
    context.textAlign = "right";
    part.rows.forEach((name, k) => context.fillText(name.slice(0, 24), left - 6, (k + 0.5) * tall + 4, left - 10));
    context.textAlign = "center";
    for (const one of ticks(range[0], range[1], 9)) context.fillText(shown(one), scaleX(one, width), height - 7);
    context.textAlign = "right";
    context.fillText(part.unit, width, height - 7);
  });
  const time = (event) => {
    const box = board.getBoundingClientRect();
    return range[0] + ((event.clientX - box.left - left) / (box.width - left)) * (range[1] - range[0]);
  };
  board.addEventListener("pointerdown", (event) => { drag = time(event); board.setPointerCapture(event.pointerId); });
  board.addEventListener("pointermove", (event) => {
    const box = board.getBoundingClientRect(), now = time(event), line = Math.floor((event.clientY - box.top) / tall);
    if (drag !== null && event.buttons) {
      const by = drag - now;
      range = [range[0] + by, range[1] + by];
      board.redraw();
      return;
    }
    let best = -1;
    for (let k = 0; k < start.length; k++) if (row[k] === line && start[k] <= now && end[k] >= now) best = k;
    if (best < 0) tip.hide();
    else tip.show(event, `${part.rows[line]}: ${part.categories[category[best]]}\n${shown(start[best])} to ${shown(end[best])} ${part.unit} (${shown(end[best] - start[best])})`);
  });
  board.addEventListener("pointerup", () => { drag = null; });
  board.addEventListener("pointerleave", tip.hide);
  board.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const at = time(event), by = event.deltaY + event.deltaX < 0 ? 0.8 : 1.25;
    range = [at - (at - range[0]) * by, at + (range[1] - at) * by];
    board.redraw();
  }, { passive: false });
  board.addEventListener("dblclick", () => { range = [part.from, part.to]; board.redraw(); });
  board.zoom = (low, high) => { range = [low, high]; board.redraw(); };
  const line = pathX.length ? [el("span", { className: "key" }, el("i", { style: { background: "#000", height: "3px" } }), "critical path")] : [];
  return el("div", {}, key(part.categories, part.colors), el("div", { className: "tools soft" }, ...line, "Ctrl-wheel to zoom (close lines of the path appear then), drag to move, double-click to reset"), board);
};
