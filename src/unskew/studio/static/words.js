// Numbers and times as people read them; the same on every screen.
export const shown = (value, percent = true) =>
  value === null || value === undefined ? "–" : percent ? `${(100 * value).toFixed(1)} %` : value.toFixed(3);

export const timeShown = seconds => {
  if (seconds < 0.95) return "1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
};

export const bytesShown = count => {
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (count < 1000 || unit === "TB") return `${count < 10 && unit !== "B" ? count.toFixed(1) : Math.round(count)} ${unit}`;
    count /= 1000;
  }
  return "";
};
