// The form for a new run: settings field by field, or an experiment file as it is.
import {ask, make, post, say} from "./base.js";

const $ = name => document.getElementById(name);

const field = (about, names) => {
  const id = `set-${about.name}`;
  let input;
  if (about.switch) input = make("input", {type: "checkbox", id, name: about.name, checked: about.default === "True"});
  else if (about.choices.length)
    input = make("select", {id, name: about.name}, ...["", ...about.choices].map(value => make("option", {value}, value || about.default || "–")));
  else input = make("input", {id, name: about.name, placeholder: about.default || "not set", autocomplete: "off", spellcheck: "false", list: names ? `names-${about.name}` : null});
  const made = make("div", {class: "field", title: about.help}, make("label", {for: id}, about.name.replaceAll("_", " ")), input);
  if (names) made.append(make("datalist", {id: `names-${about.name}`}, ...names.map(([value, text]) => make("option", {value}, text))));
  return made;
};

const show = which => {
  for (const name of ["form", "toml"]) {
    const chosen = name === which;
    $(`tab-${name}`).setAttribute("aria-selected", chosen);
    $(`tab-${name}`).tabIndex = chosen ? 0 : -1;
    $(`pane-${name}`).hidden = !chosen;
  }
};

const settings = () => {
  const found = {};
  for (const input of $("pane-form").querySelectorAll("input, select")) {
    if (input.type === "checkbox") { if (input.checked) found[input.name] = true; }
    else if (input.value.trim()) found[input.name] = input.value.trim();
  }
  return found;
};

const suggestedName = () => {
  const method = ($("set-method").value || "fedavg").replace(/[^\w.()=+-]+/g, "_").slice(0, 40);
  return `${method}-${new Date().toISOString().slice(5, 19).replace(/[-:T]/g, "")}`;
};

export const setUpForm = started => {
  const dialog = $("dialog");
  let filled = false, named = false;
  $("new").addEventListener("click", async () => {
    if (!filled) {
      const {fields, names} = await ask("/runs/offers");
      for (const about of fields) $(about.first ? "first" : "rest").append(field(about, names[about.name]));
      $("set-method").addEventListener("input", () => { if (!named) $("run-name").value = suggestedName(); });
      filled = true;
    }
    named = false;
    $("run-name").value = suggestedName();
    $("refusal").hidden = true;
    dialog.showModal();
    $("set-method").focus();
  });
  $("run-name").addEventListener("input", () => { named = true; });
  $("close").addEventListener("click", () => dialog.close());
  for (const name of ["form", "toml"]) {
    $(`tab-${name}`).addEventListener("click", () => show(name));
    $(`tab-${name}`).addEventListener("keydown", event => {
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
        const other = name === "form" ? "toml" : "form";
        show(other);
        $(`tab-${other}`).focus();
      }
    });
  }
  $("form").addEventListener("submit", async event => {
    event.preventDefault();
    const name = $("run-name").value;
    const values = $("pane-toml").hidden ? {name, settings: settings()} : {name, toml: $("toml").value};
    try {
      const found = await post("/runs/start", values);
      dialog.close();
      say(`${found.name} is in the queue`);
      started();
    } catch (error) {
      $("refusal").textContent = error.message;
      $("refusal").hidden = false;
    }
  });
};
