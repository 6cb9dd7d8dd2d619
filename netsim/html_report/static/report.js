"use strict";
// The page: headlines, sections about all results, and those of the chosen result.

const DATA = JSON.parse(document.getElementById("data").textContent);

function section(one) {
  return el("section", { id: one.key }, el("h2", {}, one.title),
    ...one.text.map((text) => el("p", {}, text)), ...one.parts.map(drawn));
}

function build() {
  const page = document.getElementById("page"), nav = el("nav", {}), details = el("div", {});
  const labels = DATA.points.map((one) => one.label);
  const links = (sections) => sections.map((one) => el("a", { href: "#" + one.key }, one.title));
  const box = el("select", { ariaLabel: "result", on: { change: () => show(Number(box.value)) } },
    ...labels.map((label, k) => el("option", { value: k }, label)));
  function show(k) {
    const chosen = DATA.points[k];
    if (!chosen) return;
    box.value = k;
    details.replaceChildren(
      el("h2", { className: "point" }, "Details of ", chosen.label), ...chosen.sections.map(section));
    nav.replaceChildren(...links(DATA.sections), ...(labels.length > 1 ? [box] : []), ...links(chosen.sections));
  }
  const more = DATA.left_out ? ` Details of ${DATA.left_out} results are not shown.` : "";
  const head = el("header", {}, el("h1", {}, DATA.title), el("div", {}, DATA.description),
    ...DATA.setting.map((text) => el("div", { className: "soft small" }, text)),
    el("div", { className: "head" },
      ...DATA.headlines.map((one) => (typeof one === "string" ? el("li", {}, one) : drawn(one)))),
    el("div", { className: "soft" }, `Report of netsim ${DATA.version}.${more} Charts: drag to zoom, double-click to reset.`));
  page.replaceChildren(head, nav, ...DATA.sections.map(section), details, el("div", { id: "tip" }));
  document.addEventListener("link", (event) => {
    const board = details.querySelector(".network canvas.own");
    board.mark(event.detail);
    board.scrollIntoView({ block: "center" });
  });
  show(DATA.start);
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

build();
