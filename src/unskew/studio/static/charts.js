// Charts, drawn by the same code as in reports. Vega is large, so it is loaded when the first chart is wanted.

let loading;
const charts = async () => {
  loading ||= import("./vega.js");
  await loading;
  return window.unskewCharts;
};

const drawnIn = new WeakMap();  // place -> {specification, results, width, turn}

// Draw a finished Vega-Lite specification into an element, as wide as there is room.
export const draw = async (place, specification) => {
  const {fit} = await charts();
  const known = drawnIn.get(place) || {turn: 0};
  known.specification = specification;
  const turn = ++known.turn;
  drawnIn.set(place, known);
  await (known.busy || Promise.resolve());
  if (turn !== known.turn) return;  // a later one was asked for meanwhile
  known.busy = (async () => {
    for (const result of known.results || []) result.finalize();  // else its listeners stay for ever
    known.results = [];
    place.style.minHeight = place.childElementCount ? `${place.clientHeight}px` : "";  // the page does not jump
    try {
      known.results = await fit(place, specification);
      place.dataset.drawn = "true";
    } catch (error) {
      place.textContent = `This chart could not be drawn: ${error.message || error}`;
      place.dataset.drawn = "false";
    }
    place.style.minHeight = "";
    known.width = place.clientWidth;
  })();
  await known.busy;
};

// Put other rows into the data set of this name, in a chart that is drawn already.
export const renew = async (place, name, rows) => {
  const known = drawnIn.get(place);
  if (!known || !known.results) return;
  await known.busy;
  for (const result of known.results) await result.view.data(name, rows.map(row => ({...row}))).runAsync();
};

// Draw every chart that the page came with.
export const drawAll = () =>
  Promise.all([...document.querySelectorAll("script[data-chart]")].map(
    data => draw(document.getElementById(data.dataset.chart), JSON.parse(data.textContent))));

let later;
addEventListener("resize", () => {
  clearTimeout(later);
  later = setTimeout(() => {
    for (const place of document.querySelectorAll("[data-drawn]")) {
      const known = drawnIn.get(place);
      if (known && Math.abs(place.clientWidth - known.width) >= 40) draw(place, known.specification);
    }
  }, 200);
});
