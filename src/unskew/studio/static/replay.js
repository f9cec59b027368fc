// Rounds seen again: models, samples and features travelling between the server and clients.
import {ask, makeSvg} from "./base.js";
import {shown} from "./words.js";

const ALL = 40;  // clients that stand on the stage all the time; of more, those of the round
const WIDE = {width: 960, height: 430, server: 62, most: 14}, NARROW = {width: 380, server: 44, most: 7};
const narrow = matchMedia("(max-width: 700px)");  // a phone's stage is high, with few clients in a row
const CHUNK = 40;
const SECONDS = 4;  // a round at speed 1
const TONES = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#7a5cb8", "#8a6d3b", "#7f8c9a",
  "#004a75", "#9c6c00", "#00664a", "#8d3e00", "#2b7fb3", "#8f4a70", "#a39a1d", "#4b3480", "#5a4523", "#4c5661"];
const $ = name => document.getElementById(name);
const ease = t => (t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);
const many = (count, one, more = `${one}s`) => `${count} ${count === 1 ? one : more}`;
const list = (who, most = 8) => who.slice(0, most).join(", ") + (who.length > most ? ", …" : "");

// The steps of a round: what moves from where to where, who trains, and what that is called.
export const stepsOf = round => {
  const steps = [];
  if (round.shared.length) {
    const everyone = one => (Array.isArray(one) ? one : one === "all" ? [] : [one]);
    const moves = round.shared.flatMap(one => {
      const from = typeof one.from === "number" ? one.from : "server";
      return everyone(one.to).map(to => ({from, to: typeof to === "number" ? to : "server", kind: "samples"}));
    });
    const samples = round.shared.reduce((sum, one) => sum + (one.samples || 0), 0);
    const heads = round.shared.filter(one => typeof one.from === "number").map(one => ({head: one.from, members: everyone(one.to)}));
    const part = round.shared[0].part;
    steps.push({moves, clusters: heads, part, text: heads.length
      ? `Before round 1: ${part} makes ${many(heads.length, "cluster")}; their heads send ${samples.toLocaleString("en")} samples to their members`
      : `Before round 1: ${part} moves ${samples.toLocaleString("en")} samples`});
  }
  const features = Object.entries(round.exchanged);
  const waiting = new Set(round.waiting), holding = new Set(round.waiting);  // clients that have kept a model of their own
  const add = step => steps.push({...step, holding: [...holding]});
  const keptLater = leg => leg.keeps && leg.by === "server" && !round.legs.some(other => other.from?.some(client => leg.clients.includes(client)));
  round.legs.forEach((leg, at) => {
    const who = leg.clients, all = [...who, ...(leg.lost || [])];
    const mixes = who.length > 0 && who.every(client => waiting.has(client));  // a phase that is not the first
    if (leg.by === "server") {
      const moves = all.map(client => ({from: "server", to: client, kind: "model"}));
      let text = `the global model goes to ${many(all.length, "client")}`;
      if (mixes) text += `, who ${all.length === 1 ? "mixes" : "mix"} it into the model kept from the phase before`;
      else if (keptLater(leg)) text += `, who ${all.length === 1 ? "starts" : "start"} a first phase`;
      if (at === 0 && features.length) {
        for (const client of all) moves.push({from: "server", to: client, kind: "features"});
        text += `, with features that ${features.map(([part, one]) => `${part} gathered from ${one.from === "all" ? "all clients" : many(one.from.length, "client")}`).join(", ")}`;
      }
      add({moves, text});
    } else if (leg.by === "peer" && leg.from)
      add({moves: who.map((client, i) => ({from: leg.from[i], to: client, kind: "model"})).filter(move => move.from !== move.to),
        text: `hand-over: each half-trained model goes to another client (${list(who.map((client, i) => `${leg.from[i]} → ${client}`), 4)})`});
    else if (leg.by === "relay" && leg.from) {
      add({moves: leg.from.map(client => ({from: client, to: "server", kind: "model"})), text: "half-trained models go up to the server"});
      add({moves: who.map(client => ({from: "server", to: client, kind: "model"})), text: "the server hands each on to another client"});
    } else add({moves: [], text: `${many(all.length, "client")} ${all.length === 1 ? "goes" : "go"} on with ${all.length === 1 ? "its" : "their"} own model`});
    const losses = (leg.loss || []).filter(value => typeof value === "number");
    const mean = losses.length ? `, mean loss ${(losses.reduce((a, b) => a + b, 0) / losses.length).toFixed(2)}` : "";
    if (keptLater(leg)) for (const client of who) holding.add(client);
    add({moves: [], train: who, lost: leg.lost || [], leg, text: `${many(who.length, "client")} ${who.length === 1 ? "trains" : "train"}${keptLater(leg) ? ` and ${who.length === 1 ? "keeps its model" : "keep their models"} for the next round` : ""}${mean}${leg.lost ? `; ${list(leg.lost)} did not answer` : ""}`});
    if (!leg.keeps) {
      for (const client of who) holding.delete(client);
      const late = new Set(round.late), refused = new Set(round.rejected);
      const moves = who.filter(client => !late.has(client)).map(client => ({from: client, to: "server", kind: refused.has(client) ? "refused" : "model"}));
      if (features.length) for (const client of who) moves.push({from: client, to: "server", kind: "features"});
      const models = moves.filter(move => move.kind !== "features").length;
      add({moves, text: `${many(models, "model")} go${models === 1 ? "es" : ""} up to the server${features.length ? ", and new features" : ""}${round.late.length ? `; ${list(round.late)} will come late` : ""}${round.rejected.length ? `; ${list(round.rejected)} sent no numbers` : ""}`});
    }
  });
  add({moves: [], merge: true, text: typeof round.value === "number" ? "the server makes the next model of them, and it is judged" : "the server makes the next model of them"});
  return steps;
};

export const setUpReplay = (stage, address, metric) => {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const known = new Map();  // round -> its steps; a few chunks only
  const asked = new Map();
  let last = stage.rounds, at = 1, playing = false, before = 0, drawnRound = 0, nodes = new Map(), moving = [];
  const scrub = $("scrub");

  const load = async round => {
    const first = CHUNK * Math.floor((round - 1) / CHUNK) + 1;
    const reach = Math.min(last, first + CHUNK - 1);
    if (asked.get(first) >= reach) return;
    asked.set(first, reach);
    if (asked.size > 6) {  // what lies far away is forgotten
      const far = [...asked.keys()].filter(key => key !== first).sort((a, b) => Math.abs(b - first) - Math.abs(a - first))[0];
      asked.delete(far);
      for (let r = far; r < far + CHUNK; r++) known.delete(r);
    }
    try {
      for (const one of await ask(`/run-rounds/${address}?first=${first}`)) known.set(one.round, {...one, steps: stepsOf(one)});
    } catch { asked.delete(first); return; }  // asked for again when somebody scrubs, or a round ends
    drawnRound = 0;
    show();
  };

  // ---- the stage ----
  const server = {x: 0, y: 0};
  const svg = makeSvg("svg", {class: "stage", "aria-hidden": "true"});
  const ways = makeSvg("g", {class: "ways"}), hulls = makeSvg("g", {class: "hulls"}), people = makeSvg("g"), flying = makeSvg("g");
  const desk = makeSvg("g", {class: "server"},
    makeSvg("rect", {x: -46, y: -26, width: 92, height: 52, rx: 12}));
  const serverText = makeSvg("text", {y: 5});
  serverText.textContent = "server";
  desk.append(serverText);
  svg.append(hulls, ways, people, flying, desk);
  $("stage").append(svg);

  const donut = (client, radius) => {
    const shares = stage.shares[client];
    const group = makeSvg("g", {class: "client"});
    if (!shares || !shares.some(Boolean)) {
      group.append(makeSvg("circle", {r: radius, class: "plain"}));
    } else {
      const around = 2 * Math.PI * radius * 0.75;
      let from = 0;
      shares.forEach((share, label) => {
        if (!share) return;
        group.append(makeSvg("circle", {r: radius * 0.75, fill: "none", stroke: TONES[label % TONES.length], "stroke-width": radius * 0.5,
          "stroke-dasharray": `${share * around} ${around}`, "stroke-dashoffset": -from * around, transform: "rotate(-90)"}));
        from += share;
      });
    }
    const name = makeSvg("text", {y: radius + 15});
    name.textContent = client;
    group.append(makeSvg("circle", {r: radius * 0.34, class: "kept"}), makeSvg("circle", {r: radius + 4, class: "ring"}), name);
    return group;
  };

  const place = clients => {
    nodes = new Map();
    people.replaceChildren();
    const largest = Math.max(1, ...clients.map(client => stage.sizes[client] || 1));
    const {width, most, ...size} = narrow.matches ? NARROW : WIDE;
    const rows = Math.max(1, Math.min(narrow.matches ? 9 : 3, Math.ceil(clients.length / most)));
    const each = Math.ceil(clients.length / rows);
    const tall = narrow.matches ? 176 + 72 * rows : size.height;
    Object.assign(server, {x: width / 2, y: size.server});
    desk.setAttribute("transform", `translate(${server.x} ${server.y})`);
    svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
    const margin = narrow.matches ? 32 : 50;
    clients.forEach((client, i) => {
      const row = Math.floor(i / each), inRow = Math.min(each, clients.length - row * each), column = i % each;
      const share = inRow === 1 ? 0.5 : column / (inRow - 1);
      const bend = (narrow.matches ? 22 : 46) * (1 - (2 * share - 1) ** 2);  // rows hang in an arc below the server
      const top = narrow.matches ? 160 + 72 * row : [275, 205 + 120 * row, 164 + 92 * row][rows - 1];
      const x = margin + (width - 2 * margin) * share, y = top + bend;
      const room = Math.min(22, (width - 2 * margin) / each / 2.6);
      const radius = Math.max(8, room * Math.sqrt((stage.sizes[client] || largest) / largest));
      const node = donut(client, radius);
      node.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      people.append(node);
      nodes.set(client, {x, y, node, radius});
    });
  };
  const everyone = stage.clients <= ALL ? Array.from({length: stage.clients}, (_, i) => i) : null;
  place(everyone || []);
  const spot = who => (who === "server" ? server : nodes.get(who));
  narrow.addEventListener("change", () => {
    if (everyone) place(everyone);
    drawnRound = 0;
    svg.dataset.step = "";
    show();
  });

  const setRound = round => {
    if (drawnRound === round.round) return;
    drawnRound = round.round;
    if (!everyone) {
      const who = new Set(round.legs.flatMap(leg => [...leg.clients, ...(leg.lost || []), ...(leg.from || [])]));
      if (round.shared.length) for (const one of round.shared) for (const client of [one.from, ...[].concat(one.to)]) if (typeof client === "number" && who.size < 60) who.add(client);
      place([...who].sort((a, b) => a - b).slice(0, 60));
    }
    moving = [];
  };

  const SHAPES = {
    model: () => makeSvg("circle", {r: 7, class: "model"}),
    refused: () => makeSvg("circle", {r: 7, class: "model refused"}),
    samples: () => makeSvg("rect", {x: -5, y: -5, width: 10, height: 10, class: "samples"}),
    features: () => makeSvg("path", {d: "M0 -7 L7 6 L-7 6 Z", class: "features"}),
  };

  const showStep = (round, number, along) => {
    const step = round.steps[number];
    const key = `${round.round}-${number}`;
    if (svg.dataset.step !== key) {
      svg.dataset.step = key;
      flying.replaceChildren();
      ways.replaceChildren();
      hulls.replaceChildren();
      moving = step.moves.filter(move => spot(move.from) && spot(move.to)).slice(0, 240).map(move => {
        const [a, b] = [spot(move.from), spot(move.to)];
        const shift = move.kind === "features" ? 10 : 0;
        const peer = move.from !== "server" && move.to !== "server";
        const bend = peer ? {x: (a.x + b.x) / 2, y: Math.min(a.y, b.y) - 50 - Math.abs(a.x - b.x) * 0.16} : {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2};
        ways.append(makeSvg("path", {d: `M${a.x} ${a.y} Q${bend.x} ${bend.y} ${b.x} ${b.y}`, class: move.kind}));
        const shape = SHAPES[move.kind]();
        flying.append(shape);
        return {shape, a, b, bend, shift};
      });
      for (const [cluster, {head, members}] of (step.clusters || []).entries()) {
        const inside = [head, ...members].map(client => nodes.get(client)).filter(Boolean);
        for (const one of inside) hulls.append(makeSvg("line", {x1: nodes.get(head)?.x ?? 0, y1: nodes.get(head)?.y ?? 0, x2: one.x, y2: one.y, stroke: TONES[cluster % TONES.length]}));
      }
      const part = new Set(round.legs.flatMap(leg => leg.clients)), training = new Set(step.train || []), lost = new Set(step.lost || []);
      const involved = new Set(step.moves.flatMap(move => [move.from, move.to]));
      const holding = new Set(step.holding);
      const heads = new Set((step.clusters || []).map(one => one.head));
      for (const [client, {node}] of nodes)
        node.setAttribute("class", ["client", part.has(client) || involved.has(client) || holding.has(client) ? "" : "away", training.has(client) ? "training" : "", lost.has(client) ? "lost" : "", heads.has(client) ? "head" : "", holding.has(client) ? "holding" : ""].join(" "));
      desk.setAttribute("class", step.merge ? "server merging" : "server");
      $("caption").textContent = step.part ? `${step.text}.` : `Round ${round.round}: ${step.text}.`;
      $("stage").setAttribute("aria-label", $("caption").textContent);
    }
    const t = ease(along);
    for (const {shape, a, b, bend, shift} of moving) {
      const x = (1 - t) ** 2 * a.x + 2 * t * (1 - t) * bend.x + t ** 2 * b.x + shift, y = (1 - t) ** 2 * a.y + 2 * t * (1 - t) * bend.y + t ** 2 * b.y + shift / 2;
      shape.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    }
  };

  const show = () => {
    const number = Math.min(last, Math.floor(at)), round = known.get(number);
    $("replay-value").textContent = last ? `round ${number} of ${last}` : "no round has ended yet";
    scrub.setAttribute("aria-valuetext", `round ${number} of ${last}`);
    if (!round) { if (last) load(number); return; }
    if (!round.legs.length && !round.shared.length) { $("caption").textContent = "The log of this run does not say who took part: it was written by an earlier version."; return; }
    setRound(round);
    const within = Math.min(0.9999, at - number) * round.steps.length, step = Math.floor(within);
    showStep(round, step, still.matches ? 0.5 : Math.min(1, (within - step) * 1.15));
    if (typeof round.value === "number" && round.steps[step].merge)
      $("replay-value").textContent += ` · ${metric.title} ${shown(round.value, metric.percent)}`;
  };

  const goTo = where => {
    at = Math.max(1, Math.min(last + 0.9999, where));
    scrub.value = at;
    show();
  };

  const frame = now => {
    if (!playing) return;
    const seconds = Math.min(0.1, (now - before) / 1000) * Number($("speed").value) / SECONDS;
    const round = known.get(Math.floor(at));
    if (still.matches && round) {  // no motion: one picture a step, as long as its motion would take
      if (now - before >= 1000 * SECONDS / round.steps.length / Number($("speed").value)) { before = now; goTo(at + 1 / round.steps.length + 1e-6); }
    } else { before = now; if (round) goTo(at + seconds); }
    if (at >= last + 0.999) { play(false); return; }
    requestAnimationFrame(frame);
  };
  const play = on => {
    playing = on && last > 0;
    $("play").textContent = playing ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", playing);
    if (!playing) return;
    if (at >= last + 0.99) goTo(1);
    before = performance.now();
    requestAnimationFrame(frame);
  };

  const reach = rounds => {
    last = Math.max(last, rounds);
    scrub.max = last + 0.99;
    scrub.disabled = $("play").disabled = $("back").disabled = $("forth").disabled = !last;
    show();
  };

  $("play").addEventListener("click", () => play(!playing));
  $("back").addEventListener("click", () => { play(false); goTo(Math.floor(at) - 1); });
  $("forth").addEventListener("click", () => { play(false); goTo(Math.floor(at) + 1); });
  scrub.addEventListener("input", () => { play(false); goTo(Number(scrub.value)); });
  scrub.addEventListener("keydown", event => {
    const to = {ArrowRight: Math.floor(at) + 1, ArrowUp: Math.floor(at) + 1, ArrowLeft: Math.ceil(at) - 1, ArrowDown: Math.ceil(at) - 1, Home: 1, End: last, PageUp: at + 10, PageDown: at - 10}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    play(false);
    goTo(to);
  });
  $("replay").addEventListener("keydown", event => {
    if (event.key !== " " || event.target.closest("button, select")) return;
    event.preventDefault();
    play(!playing);
  });
  addEventListener("pagehide", () => { playing = false; });
  const used = stage.labels.length && Object.keys(stage.shares).length ? " A ring is a client, in the colours of the classes it holds." : "";
  $("legend").textContent = `●\u00a0model, ■\u00a0samples, ▲\u00a0features.${used}`;
  reach(last);
  goTo(1);
  return {reach};
};
