"""What a page does once it is open: it draws its charts as wide as there is room, and unfolds itself for print.

A chart is first drawn as it was made. Where that is wider than the page, as on a phone, it is kept for paper and drawn
again: what stood side by side goes below one another, titles and legends break into lines, and plots shrink until
the chart fits. A chart that is a map (``usermeta.fixed``) keeps its size, and scrolls by itself.
"""

from __future__ import annotations

import functools

from unskew.report.bundle import bundled


@functools.cache
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed with the lines that draw every chart of the page."""
    return bundled("page", _FIT + _PAGE).replace("</script", r"<\/script")


@functools.cache
def drawing_module() -> str:
    """The same as a module of its own, for pages that a server gives out: ``window.unskewCharts`` is what it offers.

    Such pages forbid code made of text and styles within the page, so expressions are interpreted (``ast``).
    """
    strict = "Object.assign(options, {ast: true, defaultStyle: false, tooltip: {disableDefaultStyle: true}});"
    return bundled("module", f"{_FIT}{strict}window.unskewCharts = {{fit}};")


_FIT = r"""
const actions = {export: true, source: false, compiled: false, editor: false};
const options = {renderer: "svg", mode: "vega-lite", actions};

const wrapped = (text, most) => {
  if (Array.isArray(text)) return text.flatMap(line => wrapped(line, most));
  if (typeof text !== "string" || text.length <= most) return text;
  const lines = [""];
  for (const word of text.split(" ")) {
    const at = lines.length - 1;
    if (lines[at] && lines[at].length + 1 + word.length > most) lines.push(word);
    else lines[at] += (lines[at] ? " " : "") + word;
  }
  return lines;
};

// A part of a chart for `room` pixels, of which its axes take `margin`; `plot` is how wide its plot was.
const narrowed = (part, room, margin, plot) => {
  if (Array.isArray(part)) return part.map(one => narrowed(one, room, margin, plot));
  if (part === null || typeof part !== "object") return part;
  const width = typeof part.width === "number" ? part.width : plot;
  const inner = Math.max(120, room - margin);
  const shrinks = width > inner;
  const made = {};
  for (const [key, value] of Object.entries(part)) {
    if (key === "data" || key === "datasets") made[key] = value;
    else if (key === "hconcat") made.vconcat = narrowed(value, room, margin, width);
    else if (key === "bounds") continue;
    else if (key === "width" && typeof value === "number") made.width = Math.min(value, inner);
    else if (key === "value" && shrinks && Math.abs(value - width) < 5) made.value = inner + value - width;
    else if (key === "labels" && value === false) continue;
    else if (key === "columns" && typeof value === "number") made.columns = room > 600 ? 2 : 1;
    else if (key === "labelLimit") made.labelLimit = Math.min(value, room > 600 ? 170 : 105);
    else if (key === "tickCount") made.tickCount = Math.min(value, 4);
    else if (key === "gradientLength") made.gradientLength = value;
    else made[key] = narrowed(value, room, margin, width);
  }
  if (made.columns && made.labelLimit) made.labelLimit = room - 50;  // a legend's: it has the whole line
  const across = part.mark && part.mark.type === "text" && part.encoding.x.scale && part.encoding.x.scale.domain;
  if (shrinks && Array.isArray(across))  // numbers in the cells of a table
    made.mark = {...made.mark, fontSize: Math.min(11, Math.max(1, Math.floor(inner / across.length / 2.4)))};
  const title = made.title;
  const most = Math.floor(inner / 7.6);
  if (part.layer || part.mark || part.vconcat || part.hconcat) {
    if (typeof title === "string") made.title = wrapped(title, most);
    else if (title && title.text)
      made.title = {...title, text: wrapped(title.text, most), subtitle: wrapped(title.subtitle, most * 1.2)};
  }
  return made;
};

// Draws a specification into an element, as wide as there is room; what can be seen and, at another width, printed.
const fit = async (chart, whole) => {
  const room = chart.clientWidth;
  const place = () => chart.appendChild(document.createElement("div"));
  const wide = place => place.querySelector("svg").getBoundingClientRect().width;
  chart.replaceChildren();
  const paper = place();
  const first = await vegaEmbed(paper, whole, options);
  if (wide(paper) <= room + 1 || (whole.usermeta && whole.usermeta.fixed)) return [first];
  paper.classList.add("paper");  // which has room for it
  const padded = {...whole, config: {...whole.config, padding: {left: 0, right: 2, top: 8, bottom: 8}}};
  const screen = place();
  screen.classList.add("screen");
  let second = null;
  for (let margin = 60, tries = 0; tries < 4; tries++) {
    if (second) second.finalize();
    second = await vegaEmbed(screen, narrowed(padded, room, margin, 0), options);
    const over = wide(screen) - room;
    if (over <= 0) break;
    margin += Math.ceil(over);
  }
  return [first, second];
};
"""

_PAGE = r"""
const root = document.documentElement;
const drawn = async data => {
  const chart = document.getElementById(data.dataset.chart);
  try {
    await fit(chart, JSON.parse(data.textContent));
    return true;
  } catch (error) {
    chart.textContent = "This chart could not be drawn: " + error;
    return false;
  }
};

const draw = () =>
  Promise.all([...document.querySelectorAll("script[data-chart]")].map(drawn))
    .then(all => { root.dataset.drawn = all.every(one => one); });
draw();

let before = innerWidth, later;
addEventListener("resize", () => {
  if (matchMedia("print").matches || Math.abs(innerWidth - before) < 40) return;
  before = innerWidth;
  clearTimeout(later);
  later = setTimeout(draw, 200);
});

const folds = () => document.querySelectorAll("details.fold:not(.screen)");
addEventListener("beforeprint", () => {
  for (const fold of folds()) { fold.dataset.was = fold.open; fold.open = true; }
});
addEventListener("afterprint", () => {
  for (const fold of folds()) fold.open = fold.dataset.was === "true";
});
"""
