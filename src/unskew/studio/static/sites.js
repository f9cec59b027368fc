// Sites: who is connected, what each allows, and what was sent.

import {ask, make} from "./base.js";

const at = name => document.getElementById(name);
const when = time => /T.*\+00:00$/.test(time) ? `${time.slice(0, 10)} ${time.slice(11, 19)} UTC` : time;
const count = value => typeof value === "number" ? value.toLocaleString("en") : "";

const table = (head, rows) => make("div", {class: "wide"}, make("table", {class: "stack"},
  make("thead", {}, make("tr", {}, ...head.map(title => make("th", {scope: "col"}, title)))),
  make("tbody", {}, ...rows.map(cells => make("tr", {},
    ...cells.map((cell, column) => make("td", {"data-title": head[column], class: typeof cell === "string" && /^[\d,]+( \/ [\d,]+)?$/.test(cell) ? "figures" : null}, cell || "–")))))));

const card = (title, about, ...inner) => make("section", {class: "card"}, make("h2", {}, title),
  about ? make("p", {class: "quiet"}, about) : null, ...inner);

const federation = found => {
  const state = found.problem || (found.running ? `at ${found.address}, since ${when(found.since)}` :
    "does not run; start it with unskew federation start");
  const rows = found.sites.map(site => [site.site, site.online ? when(site.since) : "not there", site.version,
    count(site.samples), count(site.clients), site.problem || site.allows]);
  return card(`Federation ${found.federation}`, state,
    rows.length ? table(["site", "connected since", "version", "samples", "clients", "allows"], rows) : null);
};

const site = found => {
  const rows = found.sent.map(line => [when(line.time), line.run || "no run", typeof line.round === "number" ? String(line.round + 1) : "",
    line.asked, line.refused ? `refused: ${line.refused}` : line.sent, `${count(line.bytes_in)} / ${count(line.bytes_out)}`]);
  return card(`Site ${found.site}`, found.problem || `allows ${found.allows}`,
    rows.length ? table(["time", "run", "round", "asked for", "sent", "bytes in / out"], rows) :
      make("p", {}, "Nothing was sent yet."));
};

const show = async () => {
  at("again").disabled = true;
  try {
    const found = await ask("/sites/data");
    const runs = found.runs.map(run => [run.run, count(run.rounds), count(run.bytes_down), count(run.bytes_up),
      run.lost.join(", ") || "nobody"]);
    const shown = [...found.federations.map(federation), ...found.sites.map(site)];
    if (runs.length) shown.push(card("Runs over real sites", "Bytes as they travelled, from the coordinator's log.",
      table(["run", "rounds", "bytes to sites", "bytes from sites", "lost"], runs)));
    at("lead").textContent = "Who is connected, what each site allows, and what was sent.";
    if (!shown.length) shown.push(card("No federation in this folder", "",
      make("p", {}, "This makes one, with keys for two sites:"),
      make("pre", {tabindex: "0"}, "unskew federation init ops --sites north,south"),
      make("p", {class: "quiet"}, "Federations, sites' own folders and runs over real sites are then shown here.")));
    at("shown").replaceChildren(...shown);
  } catch (error) {
    at("lead").textContent = error.message;
  }
  at("again").disabled = false;
};

at("again").addEventListener("click", show);
show();
