// A comparison as the report's own templates made it.

import {drawAll} from "./charts.js";

const at = name => document.getElementById(name);

export const show = async found => {
  at("title").textContent = found.title;
  at("lead").textContent = found.lead;
  at("compared").innerHTML = found.html;  // the templates escape every value
  // a chart has a menu here, so it is no mere picture
  for (const chart of at("compared").querySelectorAll("[role=img]")) chart.setAttribute("role", "group");
  await drawAll();
};
