// All runs, live. Only the rows in sight are in the page, so a thousand runs scroll as ten do.
import {ask, given, make, makeSvg, post, say} from "./base.js";
import {setUpForm} from "./new-run.js";
import {shown, timeShown} from "./words.js";

const POLL = 1500;
const rows = new Map();  // name -> row
const sparks = new Map();  // name -> {round, points}
const picked = new Set();
const defaults = given("defaults");
const readOnly = given("read-only");
const $ = name => document.getElementById(name);
const body = $("table").tBodies[0];
let version = 0, listed = [], queue = {jobs: [], at_once: 1, cores: 1};

const setting = (row, name) => {
  if (name === "status") return row.status;
  const value = name in row.settings ? row.settings[name] : defaults[name];
  return value === null || value === undefined ? "" : value;
};
const called = row => row.label || setting(row, "method");

// ---- what is listed, in which order ----

const ORDER = {running: 0, damaged: 1, failed: 2, interrupted: 3, done: 4};
const SORTS = {
  newest: ["newest first", row => -(row.changed || 0)],
  name: ["name", row => row.name],
  best: ["metric, largest first", row => (row.value === undefined || row.value === null ? Infinity : -row.value)],
  method: ["method", row => String(called(row))],
  status: ["status", row => ORDER[row.status]],
  round: ["rounds played", row => -row.round],
};
const collator = new Intl.Collator("en", {numeric: true});
const inOrder = key => (a, b) => {
  const [x, y] = [key(a), key(b)];
  const first = typeof x === "number" && typeof y === "number" ? x - y : collator.compare(String(x), String(y));
  return first || collator.compare(a.name, b.name);
};

const written = (row, name) => String(setting(row, name)).toLowerCase();
// seed=1 asks for a setting: the runs that have this very value, or as long as none has it, those whose value begins so.
const asked = word => {
  const at = word.indexOf("="), name = word.slice(0, at), value = word.slice(at + 1);
  const all = [...rows.values()];
  if (at < 1 || !(name in defaults || all.some(row => name in row.settings))) return {word};
  return {name, value, exact: all.some(row => written(row, name) === value)};
};
const matches = (row, words) => words.every(({word, name, value, exact}) => {
  if (name) return exact ? written(row, name) === value : written(row, name).startsWith(value);
  return `${row.name} ${called(row)} ${setting(row, "dataset")} ${setting(row, "partition")} ${row.status}`.toLowerCase().includes(word);
});

// A heading sorts by its column, once more the other way round.
const heads = [...document.querySelectorAll("[data-sort]")];
let backwards = false;
for (const head of heads) head.addEventListener("click", () => {
  backwards = $("sort").value === head.dataset.sort && !backwards;
  $("sort").value = head.dataset.sort;
  arrange();
});
const sortKey = name => SORTS[name] ? SORTS[name][1] : row => setting(row, name);

const arrange = () => {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean).map(asked);
  const status = $("status").value, group = $("group").value;
  const found = [...rows.values()].filter(row => (!status || row.status === status) && matches(row, words));
  found.sort(inOrder(sortKey($("sort").value)));
  if (backwards) found.reverse();
  for (const head of heads) {
    const sorted = head.dataset.sort === $("sort").value;
    head.closest("th").setAttribute("aria-sort", !sorted ? "none" : backwards ? "descending" : "ascending");
  }
  if (group) {
    const groups = new Map();
    for (const row of found) {
      const value = String(setting(row, group));
      if (!groups.has(value)) groups.set(value, []);
      groups.get(value).push(row);
    }
    listed = [...groups].sort((a, b) => collator.compare(a[0], b[0]))
      .flatMap(([value, some]) => [{group: `${group} = ${value || "–"}`, some}, ...some]);
  } else listed = found;
  $("nothing").hidden = found.length > 0;
  $("nothing").textContent = rows.size ? "No run fits the filter." : "No runs in this folder yet. Start one here, or with unskew run.";
  $("table").hidden = !found.length;
  draw(true);
};

const fillChoices = () => {
  const names = new Set();
  for (const row of rows.values()) for (const name of Object.keys(row.settings)) names.add(name);
  const varying = [...names].filter(name => {
    let first;
    for (const row of rows.values()) {
      const value = String(setting(row, name));
      if (first === undefined) first = value;
      else if (value !== first) return true;
    }
    return false;
  }).sort();
  const fill = (select, options) => {
    const chosen = select.value, text = options.map(String).join();
    if (select.dataset.text === text) return;
    select.dataset.text = text;
    select.replaceChildren(...options.map(([value, label]) => make("option", {value}, label)));
    if (options.some(([value]) => value === chosen)) select.value = chosen;
  };
  fill($("group"), [["", "nothing"], ["status", "status"], ...varying.map(name => [name, name])]);
  fill($("sort"), [...Object.entries(SORTS).map(([value, [label]]) => [value, label]),
    ...varying.filter(name => !(name in SORTS)).map(name => [name, name])]);
};

// ---- drawing the rows in sight ----

const narrow = matchMedia("(max-width: 700px)");
const height = () => (narrow.matches ? 118 : 54);
let span = "";

const sparkline = row => {
  const points = sparks.get(row.name)?.points || [];
  if (points.length < 2) return make("span", {class: "quiet"}, "");
  const low = Math.min(...points), high = Math.max(...points), room = high - low || 1;
  const at = points.map((v, i) => `${(2 + 96 * i / (points.length - 1)).toFixed(1)},${(25 - 22 * (v - low) / room).toFixed(1)}`);
  return makeSvg("svg", {width: 100, height: 28, viewBox: "0 0 100 28", "aria-hidden": "true", class: "line"},
    makeSvg("polyline", {points: at.join(" ")}), makeSvg("circle", {cx: 98, cy: at[at.length - 1].split(",")[1], r: 2}));
};

const act = async (address, name, done) => {
  try { await post(address, {name}); say(done); poll(); } catch (error) { say(error.message, true); }
};

const actions = row => {
  if (readOnly) return "";
  if (row.status === "running")
    return make("button", {type: "button", class: "small", onclick: () => act("/runs/stop", row.name, `${row.name} saves and stops`)}, "Stop");
  if (row.status === "interrupted" || row.status === "failed")
    return make("button", {type: "button", class: "small", onclick: () => act("/runs/resume", row.name, `${row.name} goes on`)}, "Resume");
  return "";
};

const rowOf = (row, at) => {
  const address = `/run/${row.name.split("/").map(encodeURIComponent).join("/")}`;
  const about = [called(row), setting(row, "dataset"), setting(row, "partition"),
    `seed ${setting(row, "seed")}`].filter(Boolean).join(" · ");
  const share = row.rounds ? Math.min(1, row.round / row.rounds) : 0;
  const pick = make("input", {type: "checkbox", "aria-label": `Compare ${row.name}`, checked: picked.has(row.name),
    onchange: event => { picked[event.target.checked ? "add" : "delete"](row.name); showPicked(); }});
  const time = row.status === "running" ? (row.left === undefined ? "" : `${timeShown(row.left)} left`)
    : row.took === undefined || row.took === null ? "" : timeShown(row.took);
  return make("tr", {"aria-rowindex": at + 2},
    make("td", {class: "pick"}, pick),
    make("td", {class: "name"}, make("a", {href: address}, row.name), make("small", {title: row.problem || about}, row.problem || about)),
    make("td", {class: "status"}, make("span", {class: `state ${row.status}`}, row.status)),
    make("td", {class: "rounds number"}, `${row.round}${row.rounds ? ` / ${row.rounds}` : ""}`,
      make("span", {class: "progress"}, make("span", {style: `width:${(100 * share).toFixed(1)}%`}))),
    make("td", {class: "number value"}, shown(row.value, row.percent), make("small", {}, row.metric || "")),
    make("td", {class: "spark"}, sparkline(row)),
    make("td", {class: "number left"}, time),
    make("td", {class: "acts"}, actions(row)));
};

const groupRow = ({group, some}) => {
  const values = some.map(row => row.value).filter(value => typeof value === "number");
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const told = `${some.length} run${some.length === 1 ? "" : "s"}${values.length ? ` · mean ${shown(mean, some[0].percent)}` : ""}`;
  return make("tr", {class: "group"}, make("th", {colspan: 8, scope: "rowgroup"}, group, make("small", {}, told)));
};

const draw = anew => {
  if ($("table").hidden) return;
  const each = height(), top = $("table").getBoundingClientRect().top + 40;
  const first = Math.max(0, Math.floor(-top / each) - 6);
  const last = Math.min(listed.length, Math.ceil((innerHeight - top) / each) + 6);
  if (!anew && span === `${first}-${last}`) return;
  span = `${first}-${last}`;
  const held = document.activeElement;
  const focus = body.contains(held) && held.closest("tr").dataset.name ? [held.closest("tr").dataset.name, held.tagName] : null;
  const gap = size => make("tr", {class: "gap", "aria-hidden": "true"}, make("td", {colspan: 8, style: `height:${size}px`}));
  const made = listed.slice(first, last).map((item, i) => {
    if (item.group) return groupRow(item);
    const row = rowOf(item, first + i);
    row.dataset.name = item.name;
    return row;
  });
  body.replaceChildren(...(first ? [gap(first * each)] : []), ...made,
    ...(last < listed.length ? [gap((listed.length - last) * each)] : []));
  $("table").setAttribute("aria-rowcount", listed.length + 1);
  if (focus)  // who was in a row stays in it while rounds go on
    [...body.rows].find(row => row.dataset.name === focus[0])?.querySelector(focus[1])?.focus({preventScroll: true});
  fetchSparks(listed.slice(first, last).filter(item => !item.group));
};

let fetching = false;
const fetchSparks = async inSight => {
  const wanted = inSight.filter(row => row.round > 1 && sparks.get(row.name)?.round !== row.round).slice(0, 60);
  if (!wanted.length || fetching) return;
  fetching = true;
  try {
    const query = new URLSearchParams(wanted.map(row => ["name", row.name]));
    const found = await ask(`/runs/lines?${query}`);
    if (sparks.size > 3000) sparks.clear();  // a page that is open for days keeps what it shows
    for (const row of wanted) sparks.set(row.name, {round: row.round, points: found[row.name] || []});
  } catch { for (const row of wanted) sparks.set(row.name, {round: row.round, points: []}); }
  fetching = false;
  draw(true);
};

// ---- the queue, and staying up to date ----

const showPicked = () => {
  const button = $("compare");
  button.hidden = picked.size < 2;
  button.textContent = `Compare ${picked.size} runs`;
};
$("compare").addEventListener("click", () => {
  location.href = `/compare?${new URLSearchParams([...picked].map(name => ["run", name]))}`;
});

const showQueue = () => {
  const place = $("queue"), text = JSON.stringify(queue);
  place.hidden = !queue.jobs.length;
  if (place.dataset.text === text || place.hidden) return;
  place.dataset.text = text;
  const choice = make("select", {"aria-label": "Runs at a time", onchange: async event => {
    try { await post("/runs/queue", {at_once: Number(event.target.value)}); poll(); } catch (error) { say(error.message, true); }
  }}, ...Array.from({length: queue.cores}, (_, i) => make("option", {value: i + 1, selected: queue.at_once === i + 1}, `${i + 1} at a time`)));
  const over = queue.jobs.some(job => ["ended", "stopped", "failed"].includes(job.status));
  place.replaceChildren(
    make("div", {class: "row"}, make("h2", {}, "Queue"), readOnly ? "" : choice,
      over && !readOnly ? make("button", {type: "button", class: "small push", onclick: async () => { await post("/runs/queue", {forget: true}); poll(); }}, "Clear what is over") : ""),
    make("ul", {class: "jobs"}, ...queue.jobs.map(job => make("li", {},
      make("span", {class: `state ${job.status === "ended" ? "done" : job.status}`}, job.status === "ended" ? "done" : job.status),
      make("b", {}, job.name), make("span", {class: "quiet"}, job.problem || job.kind),
      (job.status === "waiting" || (job.status === "running" && job.kind === "sweep")) && !readOnly
        ? make("button", {type: "button", class: "small", onclick: () => act("/runs/stop", job.name, `${job.name} is stopped`)}, job.status === "waiting" ? "Take out" : "Stop")
        : job.kind === "sweep" && ["stopped", "failed"].includes(job.status) && !readOnly
          ? make("button", {type: "button", class: "small", onclick: () => act("/runs/resume", job.name, `${job.name} goes on`)}, "Resume")
          : ""))));
};

const take = changes => {
  if (changes.all) rows.clear();
  for (const row of changes.rows) rows.set(row.name, row);
  for (const name of changes.gone) { rows.delete(name); sparks.delete(name); picked.delete(name); }
  version = changes.version;
  const by = {};
  for (const row of rows.values()) by[row.status] = (by[row.status] || 0) + 1;
  $("summary").textContent = rows.size
    ? `${rows.size.toLocaleString("en")} runs: ${Object.keys(ORDER).filter(s => by[s]).map(s => `${by[s]} ${s}`).join(", ")}` : "";
  if (changes.rows.length || changes.gone.length || changes.all) { fillChoices(); arrange(); showPicked(); }
};

let timer, lost = false;
const poll = async () => {
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      const found = await ask(`/runs/data?since=${version}`);
      if (lost) say("The studio is back.");
      lost = false;
      queue = found.queue;
      take(found);
      showQueue();
    } catch (error) {
      if (!lost) say("The studio does not answer; it may have ended.", true);
      lost = true;
    }
  }
  timer = setTimeout(poll, POLL);
};

let waiting = false;
const soon = () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(false); });
};
addEventListener("scroll", soon, {passive: true});
addEventListener("resize", () => { span = ""; soon(); });
addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
$("sort").addEventListener("input", () => { backwards = false; });
for (const name of ["filter", "status", "group", "sort"]) $(name).addEventListener("input", arrange);

take(given("first-rows"));
poll();
if (!readOnly) setUpForm(poll);
