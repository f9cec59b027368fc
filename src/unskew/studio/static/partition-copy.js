// Partitions in a published copy: those of its runs.

import {ask} from "./base.js";
import {show} from "./partition-found.js";

const which = document.getElementById("which");
const choose = async () => {
  const problem = document.getElementById("problem");
  try {
    await show(await ask(`/partition/run?name=${encodeURIComponent(which.value)}`));
    problem.hidden = true;
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
  document.getElementById("found").setAttribute("aria-busy", "false");
};
which.addEventListener("change", choose);
choose();
