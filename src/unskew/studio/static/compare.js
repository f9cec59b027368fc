// Compare: boxes pick groups or single runs, the server compares them as a report does.

import {ask, make} from "./base.js";
import {show} from "./compared.js";

const at = name => document.getElementById(name);
const form = at("picks");
let groups = [];  // {id, box, runs: [{id, box}]}

const groupOf = group => {
  const box = make("input", {type: "checkbox", checked: true});
  const runs = group.runs.map(run => ({id: run.id, box: make("input", {type: "checkbox", checked: true}), run}));
  const own = {id: group.id, box, runs};
  const settle = () => {
    const picked = runs.filter(run => run.box.checked).length;
    box.checked = picked > 0;
    box.indeterminate = picked > 0 && picked < runs.length;
    compare();
  };
  box.addEventListener("change", () => {
    for (const run of runs) run.box.checked = box.checked;
    box.indeterminate = false;
    compare();
  });
  for (const run of runs) run.box.addEventListener("change", settle);
  groups.push(own);
  const listed = runs.map(one => make("label", {class: "pick"}, one.box,
    make("span", {}, `seed ${one.run.seed}, ${one.run.final}`, one.run.status === "done" ? "" : ` (${one.run.status})`)));
  const state = group.complete ? null : make("span", {class: "tag"}, "not done");
  return make("div", {},
    make("label", {class: "pick"}, box, make("span", {}, group.label, " ", state)),
    make("details", {}, make("summary", {}, runs.length === 1 ? "1 run" : `${runs.length} runs`), ...listed));
};

const showRuns = found => {
  groups = [];
  const several = found.problems.length > 1;
  at("groups").replaceChildren(...found.problems.map(problem => make("div", {},
    several ? make("h3", {}, problem.name) : null, ...problem.groups.map(groupOf))));
};

// Whole groups by their own name, so that an address stays short; nothing where all are picked.
const picked = () => {
  const said = new URLSearchParams();
  const whole = groups.every(group => group.runs.every(run => run.box.checked));
  for (const group of whole ? [] : groups) {
    const runs = group.runs.filter(run => run.box.checked);
    if (runs.length === group.runs.length) said.append("of", group.id);
    else for (const run of runs) said.append("of", run.id);
  }
  if (form.baseline.value) said.set("baseline", form.baseline.value);
  if (form.spread.value !== "ci") said.set("spread", form.spread.value);
  return {said, any: groups.some(group => group.runs.some(run => run.box.checked))};
};

const offerBaselines = methods => {
  const known = [...form.baseline.options].slice(1).map(option => option.value);
  if (form.baseline.value || known.join() === methods.join()) return;
  form.baseline.replaceChildren(form.baseline.options[0], ...methods.map(name => make("option", {value: name}, name)));
};

const complain = text => {
  at("problem").textContent = text;
  at("problem").hidden = !text;
};

let busy = false, again = false;
const compare = async () => {
  if (busy) { again = true; return; }
  busy = true;
  at("results").setAttribute("aria-busy", "true");
  const {said, any} = picked();
  for (const link of at("formats").children) link.href = `/compare/export/${link.dataset.kind}?${said}`;
  try {
    if (!any) throw new Error(groups.length ? "Nothing is picked: tick a group or a run." :
      "There is no run in this folder yet.");
    const found = await ask(`/compare/of?${said}`);
    offerBaselines(found.methods);
    await show(found);
    complain("");
  } catch (error) {
    complain(error.message);
    at("compared").replaceChildren();
  }
  busy = false;
  if (again) { again = false; compare(); }
  else at("results").setAttribute("aria-busy", "false");
};

at("all").addEventListener("click", () => {
  const every = groups.every(group => group.box.checked && !group.box.indeterminate);
  for (const group of groups) {
    group.box.checked = !every;
    group.box.indeterminate = false;
    for (const run of group.runs) run.box.checked = !every;
  }
  compare();
});
form.baseline.addEventListener("change", compare);
form.spread.addEventListener("change", compare);
form.addEventListener("submit", event => event.preventDefault());
const start = async () => {
  try { showRuns(await ask("/compare/runs")); } catch (error) { return complain(error.message); }
  const wanted = new Set(new URLSearchParams(location.search).getAll("run"));  // ticked on the Runs screen
  for (const group of wanted.size ? groups : []) {
    for (const run of group.runs) run.box.checked = wanted.has(run.id);
    const ticked = group.runs.filter(run => run.box.checked).length;
    group.box.checked = ticked > 0;
    group.box.indeterminate = ticked > 0 && ticked < group.runs.length;
  }
  compare();
};
start();
