// The comparison in a published copy: of all its runs.

import {ask} from "./base.js";
import {show} from "./compared.js";

const start = async () => {
  try {
    await show(await ask("/compare/of"));
  } catch (error) {
    const problem = document.getElementById("problem");
    problem.textContent = error.message;
    problem.hidden = false;
  }
  document.getElementById("results").setAttribute("aria-busy", "false");
};
start();
