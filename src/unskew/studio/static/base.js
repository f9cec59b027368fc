// What every screen needs: the switch between light and dark, asking the studio, and saying what came of it.

const THEMES = ["system", "light", "dark"];
const SIGNS = {system: "◐", light: "☀", dark: "☾"};

const showTheme = chosen => {
  const root = document.documentElement;
  if (chosen === "system") delete root.dataset.theme;
  else root.dataset.theme = chosen;
  const button = document.getElementById("theme");
  button.textContent = SIGNS[chosen];
  button.setAttribute("aria-label", `Colours: ${chosen}. Press to change`);
  button.title = `Colours: ${chosen}`;
};

const setUpTheme = () => {
  const button = document.getElementById("theme");
  if (!button) return;
  let chosen = document.documentElement.dataset.theme || "system";
  showTheme(chosen);
  button.addEventListener("click", () => {
    chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
    try { localStorage.setItem("unskew-theme", chosen); } catch { /* for this page only, then */ }
    showTheme(chosen);
    dispatchEvent(new CustomEvent("themechange"));
  });
};
setUpTheme();

// Ask the studio; a refusal is an Error with its one sentence.
export const ask = async (address, options = {}) => {
  const answer = await fetch(address, {headers: {accept: "application/json"}, ...options});
  const text = await answer.text();
  let found;
  try { found = JSON.parse(text); } catch { found = {error: text.trim()}; }
  if (!answer.ok || found?.error) throw new Error(found.error || `the studio answered ${answer.status}`);
  return found;
};

export const post = (address, values = {}) =>
  ask(address, {
    method: "POST",
    headers: {accept: "application/json", "content-type": "application/json"},
    body: JSON.stringify(values),
  });

let quiet;
// Say something to everybody, also to who cannot see it; it goes away by itself.
export const say = (text, isProblem = false) => {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.toggle("problem", isProblem);
  place.classList.add("shown");
  clearTimeout(quiet);
  quiet = setTimeout(() => place.classList.remove("shown"), isProblem ? 12000 : 5000);
};

// Make an element: names of attributes, then children; text is never taken for HTML.
export const make = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
};

export const makeSvg = (name, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// What the server put into the page as JSON.
export const given = name => JSON.parse(document.getElementById(name).textContent);
