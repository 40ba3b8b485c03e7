"use strict";
// Figures and tables of the page. Texts reach the page as text nodes only; the JSON holds no markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SHOWN = 100; // rows of a table at a time
  const NARROW = 700; // pixels below which names of features would lie on each other
  const root = document.documentElement;
  const drawn = [];

  const isDark = () => root.dataset.theme === "dark";
  const theme = () => data.themes[isDark() ? "dark" : "white"];

  function setTheme(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    for (const place of drawn) Plotly.relayout(place, { template: theme() });
  }

  function draw(place) {
    const figure = data.figures[place.dataset.figure];
    if (!figure || place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    const layout = { ...figure.layout, template: theme(), autosize: true };
    if (place.dataset.figure === "heat" && place.clientWidth < NARROW) layout.xaxis = { ...layout.xaxis, showticklabels: false };
    const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
    Plotly.newPlot(place, figure.data, layout, config).then(() => {
      drawn.push(place);
      if (figure.frames && figure.frames.length) Plotly.addFrames(place, figure.frames);
    });
  }

  // Figures are drawn when they come into view: a page with many of them opens at once, and closed details have a width when opened.
  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => { watcher.unobserve(entry.target); draw(entry.target); }),
    { rootMargin: "300px" },
  );

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));

  function makeTable(place) {
    const { head, rows } = data.tables[place.dataset.table];
    const search = element("input", undefined, { type: "search", placeholder: "search", "aria-label": `search the table of ${place.dataset.table}` });
    const count = element("span", "", { class: "count" });
    const table = element("table");
    const more = element("button", "show more", { type: "button" });
    let order = rows.map((_, i) => i), column = -1, rising = true, limit = SHOWN;

    const buttons = head.map((name, j) => {
      const button = element("button", name, { type: "button" });
      button.addEventListener("click", () => {
        rising = column === j ? !rising : typeof rows[0]?.[j] !== "number";
        column = j;
        const sign = rising ? 1 : -1;
        order = rows.map((_, i) => i).sort((a, b) => sign * compare(rows[a][j], rows[b][j]) || a - b);
        show();
      });
      return button;
    });
    const line = element("tr");
    buttons.forEach((button) => { const cell = element("th", undefined, { scope: "col" }); cell.append(button); line.append(cell); });
    const top = element("thead"), body = element("tbody");
    top.append(line);
    table.append(top, body);

    function show() {
      const words = search.value.trim().toLowerCase();
      const hits = words ? order.filter((i) => rows[i].some((cell) => String(cell).toLowerCase().includes(words))) : order;
      buttons.forEach((button, j) => button.parentElement.setAttribute("aria-sort", j !== column ? "none" : rising ? "ascending" : "descending"));
      body.replaceChildren(...hits.slice(0, limit).map((i) => {
        const row = element("tr");
        row.append(...rows[i].map((cell) => element("td", String(cell))));
        return row;
      }));
      count.textContent = hits.length > limit ? `${limit} of ${hits.length} shown` : `${hits.length} rows`;
      more.hidden = hits.length <= limit;
    }
    search.addEventListener("input", () => { limit = SHOWN; show(); });
    more.addEventListener("click", () => { limit += 10 * SHOWN; show(); });
    place.append(search, count, table, more);
    show();
  }

  root.dataset.theme = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.getElementById("theme").addEventListener("click", () => setTheme(!isDark()));
  document.querySelectorAll(".figure").forEach((place) => watcher.observe(place));
  document.querySelectorAll(".table").forEach(makeTable);
  document.querySelectorAll("details").forEach((place) => place.addEventListener("toggle", () => place.querySelectorAll(".figure").forEach(draw)));
  window.addEventListener("beforeprint", () => document.querySelectorAll(".figure").forEach(draw));
})();
