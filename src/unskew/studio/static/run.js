// One run: what it is doing now, its curves as they grow, what it cost, who took part.
import {ask, given, make, post, say} from "./base.js";
import {draw, renew} from "./charts.js";
import {setUpReplay} from "./replay.js";
import {bytesShown, shown, timeShown} from "./words.js";

const MOST_POINTS = 900;  // then every second one goes: a page that is open for days does not grow
const $ = name => document.getElementById(name);
const viewed = document.getElementById("view");
if (viewed) start();

function start() {
  const view = given("view"), row = given("row"), address = given("address"), readOnly = given("read-only");
  const first = view.metrics[0];
  let points = view.points, best = null, replay = null, changed = false;

  // ---- at a glance ----
  const showNow = now => {
    $("status").textContent = now.status;
    $("status").className = `state ${now.status}`;
    const last = points[points.length - 1];
    const round = Math.max(now.round || 0, last ? last.round : 0), of = now.rounds || view.rounds;
    $("round").textContent = `${round} / ${of}`;
    $("progress").firstElementChild.style.width = `${Math.min(100, 100 * round / of).toFixed(1)}%`;
    $("time").textContent = now.status === "running" && now.left !== undefined ? `about ${timeShown(now.left)} left` : "";
    $("metric-name").textContent = `Global test ${first.title}`;
    const judged = points.filter(point => point[first.key] !== undefined);
    const value = judged.length ? judged[judged.length - 1][first.key] : now.value;
    $("value").textContent = shown(value, first.percent);
    if (judged.length) {
      const smaller = first.key === "global_test_loss";
      for (const point of judged)
        if (!best || (smaller ? point[first.key] < best.value : point[first.key] > best.value)) best = {value: point[first.key], round: point.round};
      $("best").textContent = `best ${shown(best.value, first.percent)} in round ${best.round}`;
    }
    $("gone").hidden = now.status !== "deleted";
    if (now.status === "deleted") $("gone").textContent = "This run's folder was deleted. What you see is what was read before.";
    showActions(now.status);
  };

  const act = async (where, done) => {
    try { await post(where, {name: row.name}); say(done); } catch (error) { say(error.message, true); }
  };
  const showActions = status => {
    if (readOnly || $("acts").dataset.status === status) return;
    $("acts").dataset.status = status;
    $("acts").replaceChildren(...(
      status === "running" ? [make("button", {type: "button", onclick: () => act("/runs/stop", "It saves and stops")}, "Stop")]
        : status === "interrupted" || status === "failed"
          ? [make("button", {type: "button", class: "main", onclick: () => act("/runs/resume", "It goes on")}, "Resume")] : []));
  };

  // ---- curves ----
  const places = view.charts.map(chart => {
    const place = make("div", {role: "figure", "aria-label": `${chart.title} over rounds`});
    $("curves").append(place);
    return {...chart, place};
  });
  const rowsOf = key => points.filter(point => point[key] !== undefined).map(point => ({round: point.round, [key]: point[key]}));
  const bars = view.bars ? make("div", {role: "figure", "aria-label": "Accuracy of each class"}) : null;
  if (bars) $("curves").append(bars);
  const classRows = () => {
    const last = [...points].reverse().find(point => point.per_class_accuracy);
    const shares = last ? last.per_class_accuracy : view.classes;
    return view.labels.map((label, at) => ({class: label, accuracy: shares[at]})).filter(one => typeof one.accuracy === "number");
  };
  const withRows = (specification, values) => ({...specification, datasets: {rounds: values}});
  const drawCurves = async () => {
    for (const {key, place, specification} of places) {
      const values = rowsOf(key);
      place.hidden = !values.length;
      if (values.length) await draw(place, withRows(specification, values));
    }
    if (bars) {
      bars.hidden = !classRows().length;
      if (!bars.hidden) await draw(bars, withRows(view.bars, classRows()));
    }
    document.documentElement.dataset.drawn = "true";
  };
  let growing = false;
  const grow = async () => {
    if (growing || document.hidden) { changed = true; return; }
    growing = true;
    do {
      changed = false;
      for (const {key, place, specification} of places) {
        const values = rowsOf(key);
        if (!values.length) continue;
        if (place.hidden) { place.hidden = false; await draw(place, withRows(specification, values)); }
        else await renew(place, "rounds", values);
      }
      if (bars && classRows().length) {
        if (bars.hidden) { bars.hidden = false; await draw(bars, withRows(view.bars, classRows())); }
        else await renew(bars, "rounds", classRows());
      }
      await new Promise(done => setTimeout(done, 300));
    } while (changed && !document.hidden);
    growing = false;
  };
  addEventListener("visibilitychange", () => { if (!document.hidden && changed) grow(); });

  // ---- costs, faults, clients ----
  const showSums = sums => {
    const total = sums.costs.reduce((sum, cost) => sum + cost.bytes, 0);
    $("bytes").textContent = bytesShown(total);
    const ways = {};
    for (const cost of sums.costs) ways[cost.way] = (ways[cost.way] || 0) + cost.bytes;
    $("ways").textContent = Object.entries(ways).map(([way, bytes]) => `${bytesShown(bytes)} ${way}`).join(", ");
    $("seen").textContent = `${sums.clients.seen || "–"}${sums.clients.of ? ` of ${sums.clients.of}` : ""}`;
    $("steps").textContent = `${Math.round(sums.sample_steps).toLocaleString("en")} sample-steps${sums.air ? `, ${timeShown(sums.air)} on the air` : ""}`;
    const most = Math.max(1, ...sums.costs.map(cost => cost.bytes));
    $("costs").replaceChildren(sums.costs.length ? make("table", {class: "costs"}, make("thead", {}, make("tr", {},
      ...["What", "Way", "Bytes"].map((text, at) => make("th", {scope: "col", class: at === 2 ? "number" : null}, text)))),
      make("tbody", {}, ...sums.costs.map(cost => make("tr", {}, make("td", {}, cost.kind), make("td", {}, cost.way),
        make("td", {class: "number"}, bytesShown(cost.bytes), make("span", {class: "progress"}, make("span", {style: `width:${(100 * cost.bytes / most).toFixed(1)}%`})))))))
      : make("p", {class: "quiet"}, "Nothing has moved yet."));
    $("faults").replaceChildren(
      make("h3", {}, "Faults"),
      sums.faults.length ? make("ul", {}, ...sums.faults.map(fault => make("li", {}, `${fault.count} ${fault.said}, in round${fault.rounds.length === 1 ? "" : "s"} ${fault.rounds.join(", ")}${fault.rounds.length >= 12 ? ", …" : ""}`)))
        : make("p", {class: "quiet"}, "None so far: everybody who was asked has answered."),
      make("h3", {}, "What leaves a client beyond a model update"),
      sums.discloses.length ? make("ul", {}, ...sums.discloses.map(said => make("li", {}, said))) : make("p", {class: "quiet"}, "Nothing."));
    const {rows, seen, of} = sums.clients;
    $("clients-said").textContent = rows.length ? `${seen} of ${of ?? "?"} clients have trained${seen > rows.length ? `; the ${rows.length} who did most often are listed` : ""}.`
      : "The log of this run does not say who took part: it was written by an earlier version.";
    $("clients").hidden = !rows.length;
    const head = ["Client", "Rounds", "Last in round", "Loss", "Update norm", "Samples", "Classes", "Mostly"];
    $("clients").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head.map((text, at) => make("th", {scope: "col", class: at && at < 7 ? "number" : null}, text)))),
      make("tbody", {}, ...rows.map(one => make("tr", {}, make("th", {scope: "row"}, one.name || String(one.client)),
        ...[one.times, one.round, one.loss?.toFixed(3), one.moved?.toPrecision(3), one.samples?.toLocaleString("en"), one.classes].map(value => make("td", {class: "number"}, value === undefined ? "–" : String(value))),
        make("td", {}, one.mostly || ""))))));
  };

  let tookAt = 0;
  const showTook = async () => {
    if (!$("took").open) return;
    tookAt = Date.now();
    try { await draw($("took-chart"), await ask(`/run-took/${address}`)); } catch (error) { $("took-chart").textContent = error.message; }
  };
  $("took").addEventListener("toggle", showTook);

  let summing = 0, sumLater;
  const renewSums = () => {  // at most every three seconds, however fast rounds go by
    clearTimeout(sumLater);
    const wait = Math.max(0, 3000 - (Date.now() - summing));
    sumLater = setTimeout(async () => {
      if (document.hidden || now.status === "deleted") return;
      summing = Date.now();
      try { showSums(await ask(`/run-sums/${address}`)); } catch { /* the next round asks again */ }
      if (Date.now() - tookAt > 10000 || now.status !== "running") showTook();
    }, wait);
  };

  // ---- live ----
  const thin = () => { if (points.length > MOST_POINTS) points = points.filter((_, at) => at % 2 === 0 || at === points.length - 1); };
  const take = lines => {
    const last = points.length ? points[points.length - 1].round : 0;
    const fresh = lines.filter(line => line.round > last);
    if (!fresh.length) return;
    points.push(...fresh);
    thin();
    grow();
    renewSums();
    if (replay) replay.reach(points[points.length - 1].round);
  };
  let now = row;
  let source = null, place = view.at;
  const listen = slot => {
    source = new EventSource(`/run-events/${address}?at=${place}${slot ? "" : "&once"}`);
    const on = (kind, then) => source.addEventListener(kind, event => { place = event.lastEventId || place; then(JSON.parse(event.data)); });
    on("rounds", lines => { take(lines); showNow(now); });
    on("status", told => { now = told; showNow(now); if (!["running", "deleted"].includes(now.status)) renewSums(); });
    on("anew", async () => {  // its log was written anew, or much was missed: everything once more
      try {
        const found = await ask(`/run-points/${address}`);
        points = found.points;
        best = null;
        showSums(found);
        showNow(now);
        grow();
        if (replay && points.length) replay.reach(points[points.length - 1].round);
      } catch { /* it is being written; the next event tells */ }
    });
  };
  const hush = () => { source?.close(); source = null; free(); free = () => {}; };
  // A browser has six connections to a studio for all its tabs. One that nobody sees holds none; of those that are
  // seen side by side, three hold one each, and others look every two seconds.
  let free = () => {}, seeking = false;
  const takeSlot = slot => new Promise(done => navigator.locks.request(`unskew-live-${slot}`, {ifAvailable: true},
    lock => lock ? new Promise(release => done(release)) : done(null)).catch(() => done(null)));
  const follow = async () => {
    if (document.hidden) { hush(); return; }
    if (source || seeking) return;
    seeking = true;
    let release = null;
    for (const slot of navigator.locks ? [1, 2, 3] : []) release ||= await takeSlot(slot);
    seeking = false;
    if (document.hidden) { release?.(); return; }
    free = release || free;
    listen(Boolean(release) || !navigator.locks);
  };
  addEventListener("visibilitychange", follow);
  addEventListener("pagehide", hush);
  addEventListener("pageshow", follow);
  follow();

  $("held").addEventListener("toggle", async () => {
    if (!$("held").open || $("held-chart").dataset.drawn) return;
    try { await draw($("held-chart"), await ask(`/run-held/${address}`)); } catch (error) { $("held-chart").textContent = error.message; }
  });

  showNow(row);
  showSums(view);
  drawCurves().then(showTook);
  if (view.stage.clients) replay = setUpReplay(view.stage, address, first);
  else $("replay").hidden = true;
}
