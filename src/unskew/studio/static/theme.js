// Runs before anything is drawn, so that a page that is to be dark never flashes in white.
(() => {
  try {
    const chosen = localStorage.getItem("unskew-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* a browser that keeps nothing follows the system */ }
})();
