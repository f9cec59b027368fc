// Compare: boxes pick groups or single runs, the server compares them as a report does.

import {ask, make} from "./base.js";
import {drawAll} from "./charts.js";

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
    await show(await ask(`/compare/of?${said}`));
    complain("");
  } catch (error) {
    complain(error.message);
    at("compared").replaceChildren();
  }
  busy = false;
  if (again) { again = false; compare(); }
  else at("results").setAttribute("aria-busy", "false");
};

const show = async found => {
  at("title").textContent = found.title;
  at("lead").textContent = found.lead;
  const chosen = form.baseline.value;
  const known = [...form.baseline.options].map(option => option.value);
  if (known.slice(1).join() !== found.methods.join() && !chosen)
    form.baseline.replaceChildren(form.baseline.options[0], ...found.methods.map(name => make("option", {value: name}, name)));
  at("compared").innerHTML = found.html;  // made by the report's templates, which escape every value
  await drawAll();
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
  compare();
};
start();
