"use strict";
// Draws the figures of a page when they come into view, in the colours of the page, light or dark.
(() => {
  const places = [...document.querySelectorAll(".plotly-figure")];
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => document.body.dataset.theme === "dark" || (document.body.dataset.theme !== "light" && system.matches);

  function template() {
    const [ink, grid] = isDark() ? ["#d7dae0", "#474b54"] : ["#2a3f5f", "#dfe4ec"];
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, automargin: true };
    return { layout: { font: { color: ink }, xaxis: axis, yaxis: axis } };
  }

  function draw(place) {
    const figure = JSON.parse(place.querySelector("script").textContent);
    const layout = { ...figure.layout, template: template(), autosize: true };
    const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
    Plotly.newPlot(place, figure.data, layout, config).then(() => {
      place.dataset.drawn = "yes";
      if (figure.frames && figure.frames.length) Plotly.addFrames(place, figure.frames);
    });
  }

  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => { watcher.unobserve(entry.target); draw(entry.target); }),
    { rootMargin: "300px" },
  );
  const repaint = () => places.filter((place) => place.dataset.drawn).forEach((place) => Plotly.relayout(place, { template: template() }));
  places.forEach((place) => watcher.observe(place));
  new MutationObserver(repaint).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
  system.addEventListener("change", repaint);
})();
