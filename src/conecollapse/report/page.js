"use strict";
// Figures and tables of the page. Texts reach the page as text nodes only; the JSON holds no markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SHOWN = 10; // rows of a table at first
  const NARROW = 700; // pixels below which a figure takes its layout for narrow screens, where it has one (layout.meta)
  const PAPER = 660; // pixels of a figure on paper: A4 and letter leave about 680 between their margins
  const root = document.documentElement;
  const charts = [...document.querySelectorAll(".chart")];
  const touch = window.matchMedia("(hover: none)").matches; // where dragging a finger over a figure must scroll the page

  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function template() {
    const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zerolinecolor: colour("--line"), ticks: "outside", ticklen: 4, tickcolor: "rgba(0,0,0,0)" };
    const control = { bgcolor: colour("--card"), bordercolor: colour("--line"), activebgcolor: colour("--soft") };
    const font = { family: "system-ui, sans-serif", size: 12, color: colour("--ink") };
    return { layout: { font, xaxis: axis, yaxis: axis, updatemenudefaults: control, sliderdefaults: control } };
  }

  function fit(place) {
    const { meta } = data.charts[place.dataset.chart].layout;
    const { height, ...layout } = meta ? meta[place.clientWidth < NARROW ? "narrow" : "wide"] : {};
    if (height) place.style.height = `${height}px`;
    if (meta) Plotly.relayout(place, { autosize: true, ...layout });
  }

  function setTheme(name, size = {}) {
    root.dataset.theme = name;
    for (const place of charts) Plotly.relayout(place, { template: template(), ...size });
  }

  function draw(place) {
    const { data: traces, layout, frames } = data.charts[place.dataset.chart];
    const shown = { ...layout, template: template(), autosize: true, height: undefined, ...(touch ? { dragmode: false } : {}) };
    const config = { responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d"] };
    Plotly.newPlot(place, traces, shown, config);
    fit(place);
    if (frames && frames.length) Plotly.addFrames(place, frames);
  }

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
    const more = element("button", "show more", { type: "button", class: "more" });
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
      count.textContent = hits.length > limit ? `${limit} of ${hits.length} rows` : `${hits.length} rows`;
      more.hidden = hits.length <= limit;
    }
    search.addEventListener("input", () => { limit = SHOWN; show(); });
    more.addEventListener("click", () => { limit *= 10; show(); });
    place.append(search, count, table, more);
    show();
  }

  root.dataset.theme = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  document.querySelectorAll(".table").forEach(makeTable);
  charts.forEach(draw); // all at once: a page that is printed or photographed has no blank places

  window.addEventListener("resize", () => charts.forEach(fit));
  // plotly.js rejects the promise of an animation that is paused, without a reason; nothing went wrong.
  window.addEventListener("unhandledrejection", (event) => { if (event.reason === undefined) event.preventDefault(); });
  let before = root.dataset.theme;
  window.addEventListener("beforeprint", () => { before = root.dataset.theme; setTheme("light", { width: PAPER }); });
  window.addEventListener("afterprint", () => setTheme(before, { width: null, autosize: true }));
})();
