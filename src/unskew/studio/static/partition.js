// The partition explorer: the form asks, the server deals, and only the latest answer is drawn.

import {ask, make, post, say} from "./base.js";
import {show} from "./partition-found.js";

const form = document.getElementById("form");
const at = name => document.getElementById(name);

// ---------------------------------------------------------------- the form

const COMMON = [
  {name: "clients", widget: "whole", low: 1, high: 1000, log: true, start: 100},
  {name: "fraction", widget: "number", low: 0.01, high: 1, log: true, start: 1},
  {name: "seed", widget: "whole", low: 0, high: 99, start: 0},
];
const fields = new Map();  // name in the request -> its element with the value

const STEPS = 200;
const shown = (value, whole) => whole ? String(Math.round(value)) : String(Number(value.toPrecision(3)));

// A slider with its number beside it: the one drags, the other takes any value.
const slider = (one, key) => {
  const whole = one.widget === "whole";
  const place = value => one.log ? Math.log(value / one.low) / Math.log(one.high / one.low)
    : (value - one.low) / (one.high - one.low);
  const value = share => one.log ? one.low * (one.high / one.low) ** share : one.low + share * (one.high - one.low);
  const even = whole && !one.log;
  const range = make("input", {
    type: "range", min: even ? one.low : 0, max: even ? one.high : STEPS, step: 1, id: `range-${key}`,
  });
  const number = make("input", {
    type: "number", name: key, step: "any", value: shown(one.start, whole), "aria-label": `${one.name}, as a number`,
  });
  const follow = () => {
    const now = Number(number.value);
    range.value = even ? now : Math.round(STEPS * Math.min(1, Math.max(0, place(now))));
    range.setAttribute("aria-valuetext", number.value);
  };
  follow();
  range.addEventListener("input", () => {
    number.value = shown(even ? Number(range.value) : value(range.value / STEPS), whole);
    range.setAttribute("aria-valuetext", number.value);
    explore();
  });
  number.addEventListener("input", () => { follow(); explore(); });
  number.follow = follow;
  fields.set(key, number);
  const label = make("label", {for: `range-${key}`}, one.name);
  return make("div", {class: "slider"}, label, range, number);
};

const widget = (one, columns) => {
  const key = `p.${one.name}`;
  if (one.widget === "number" || one.widget === "whole") return slider(one, key);
  if (one.widget === "switch") {
    const box = make("input", {type: "checkbox", name: key, checked: one.start, onchange: () => explore()});
    fields.set(key, box);
    return make("label", {class: "switch"}, box, one.name);
  }
  let input;
  if (one.widget === "choice") {
    input = make("select", {name: key, onchange: () => explore()}, ...one.choices.map(word => make("option", {}, word)));
    input.value = one.start;
  } else {
    const offers = one.widget === "text" && columns.length;
    input = make("input", {name: key, value: one.start || (offers ? columns[0] : ""), autocomplete: "off",
      list: offers ? "columns" : null, oninput: () => explore()});
  }
  fields.set(key, input);
  return make("label", {class: "field"}, make("span", {}, one.name), input);
};

const words = () => {
  const said = new URLSearchParams({data: form.data.value || form.other.value, family: form.family.value});
  for (const [key, field] of fields)
    said.set(key, field.type === "checkbox" ? String(field.checked) : field.value);
  return said;
};

// A table does not say by itself which column to learn: its name stands ready to be written.
const nameLabel = file => {
  form.data.value = "";
  at("other").hidden = false;
  form.other.value = `${file}(label=)`;
  form.other.focus();
  form.other.setSelectionRange(form.other.value.length - 1, form.other.value.length - 1);
};

const showForm = async () => {
  for (const key of [...fields.keys()]) if (key.startsWith("p.")) fields.delete(key);
  try {
    const found = await ask(`/partition/form?${words()}`);
    const offers = make("datalist", {id: "columns"}, ...found.columns.map(name => make("option", {value: name})));
    at("parameters").replaceChildren(...found.parameters.map(one => widget(one, found.columns)), offers);
    at("about").textContent = found.about;
    at("solve").disabled = !found.knob;
    at("solutions").replaceChildren();
  } catch (error) {
    at("parameters").replaceChildren();
    if (error.message.includes("write label=") && form.data.value) nameLabel(form.data.value);
    return complain(error);
  }
  explore();
};

// ---------------------------------------------------------------- what it makes

const complain = error => {
  at("found").classList.add("stale");  // what is shown is not what was asked for
  at("problem").textContent = error.message;
  at("problem").hidden = false;
  at("found").setAttribute("aria-busy", "false");
};

let busy = false, again = false;
// One question at a time: what changes meanwhile is asked afterwards, and only its latest state.
const explore = async () => {
  if (busy) { again = true; return; }
  busy = true;
  at("found").setAttribute("aria-busy", "true");
  const start = performance.now();
  try {
    const found = await ask(`/partition/of?${words()}`);
    await show(found);
    at("found").classList.remove("stale");
    at("partition-command").textContent = found.commands.partition;
    at("run-command").textContent = found.commands.run;
    const whole = Math.round(performance.now() - start);
    at("took").textContent = `Dealt, measured and written down in ${found.milliseconds} ms; on this page after ${whole} ms.`;
    at("problem").hidden = true;
  } catch (error) {
    complain(error);
  }
  busy = false;
  if (again) { again = false; explore(); }
  else at("found").setAttribute("aria-busy", "false");
};

// ---------------------------------------------------------------- solve, copy, save

const take = values => {
  for (const [name, value] of Object.entries(values)) {
    const field = fields.get(`p.${name}`);
    if (!field) continue;
    if (field.type === "checkbox") field.checked = value === "true";
    else field.value = value;
    if (field.follow) field.follow();
  }
  explore();
};

const solve = async () => {
  at("solve").disabled = true;
  try {
    const found = await ask(`/partition/solve?${words()}&emd=${encodeURIComponent(form.emd.value)}`);
    say(`EMD ${found.emd.toFixed(3)}`);
    take(found.values);
  } catch (error) {
    say(error.message, true);
  }
  at("solve").disabled = false;
};

const solveAll = async () => {
  at("every").disabled = true;
  at("solutions").replaceChildren(make("li", {class: "quiet"}, "simulating what no formula tells…"));
  try {
    const {found} = await ask(`/partition/solve?${words()}&all=1&emd=${encodeURIComponent(form.emd.value)}`);
    at("solutions").replaceChildren(...found.map(one => make("li", {}, make("button", {
      type: "button",
      onclick: async () => {
        form.family.value = one.family;
        await showForm();
        take(one.values);
      },
    }, make("span", {}, one.expression), make("small", {}, one.emd)))));
  } catch (error) {
    at("solutions").replaceChildren();
    say(error.message, true);
  }
  at("every").disabled = false;
};

const copy = async event => {
  const name = event.currentTarget.dataset.copy;
  try {
    await navigator.clipboard.writeText(at(name).textContent);
    say("Copied");
  } catch {
    getSelection().selectAllChildren(at(name));
    say("Press Ctrl-C: the command is selected");
  }
};

const save = async event => {
  event.preventDefault();
  try {
    const found = await post("/partition/save", {...Object.fromEntries(words()), name: event.target.elements.name.value});
    say(`Saved as ${found.saved}`);
  } catch (error) {
    say(error.message, true);
  }
};

at("common").replaceChildren(...COMMON.map(one => slider(one, one.name)));
form.addEventListener("submit", event => event.preventDefault());
form.data.addEventListener("change", () => {
  at("other").hidden = Boolean(form.data.value);
  if (form.data.value) showForm();
  else form.other.focus();
});
form.other.addEventListener("change", showForm);
form.family.addEventListener("change", showForm);
form.emd.addEventListener("keydown", event => { if (event.key === "Enter") solve(); });
at("solve").addEventListener("click", solve);
at("every").addEventListener("click", solveAll);
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", copy);
at("save")?.addEventListener("submit", save);
showForm();
