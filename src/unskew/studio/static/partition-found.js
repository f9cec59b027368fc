// A partition as it was found: its headline, its numbers, its pictures, and what the diagnosis says of it.

import {make} from "./base.js";
import {draw} from "./charts.js";

const at = name => document.getElementById(name);

export const show = async found => {
  at("headline").textContent = found.headline;
  at("described").textContent = [found.about, ...found.notes].join(" · ");
  at("numbers").replaceChildren(...found.numbers.map(one => make("div", {class: "stat"},
    make("span", {}, one.measure), make("b", {}, one.value),
    make("small", {}, one.chance ? `${one.span}; by chance ${one.chance}` : one.span))));
  at("diagnosed").innerHTML = found.said;  // made by the report's templates, which escape every value
  await Promise.all(Object.entries(found.charts).map(([name, chart]) => draw(at(name), chart)));
};
