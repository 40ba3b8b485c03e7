// What can go wrong with a page that a person would see: text that is cut or hidden, boxes that overlap, words broken in headings, blanks.
() => {
  const wrong = [], width = document.documentElement.clientWidth;
  const shown = (node) => { const box = node.getBoundingClientRect(); return box.width > 0.5 && box.height > 0.5 && getComputedStyle(node).visibility !== "hidden"; };
  const called = (node) => `${node.tagName} ${node.getAttribute("class") || ""} "${(node.textContent || "").trim().slice(0, 40)}"`;
  const say = (what, ...nodes) => wrong.push(`${what}: ${nodes.map(called).join(" | ")}`);
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;

  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} pixels wide, the window ${width}`);

  // Text: inside the window (a wide table scrolls in its own box), and not cut by a box that hides what is too long.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, noscript, svg, .table table") || !shown(parent)) continue;
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.left < -1 || box.right > width + 1) say("beyond the window", parent);
  }
  for (const node of document.querySelectorAll("body *:not(svg *):not(svg)")) {
    if (node.closest(".table, .js-plotly-plot") || !shown(node)) continue;
    const style = getComputedStyle(node);
    if (style.overflowX !== "visible" && node.scrollWidth > node.clientWidth + 1) say("cut", node);
    if (style.overflowY === "hidden" && node.scrollHeight > node.clientHeight + 1) say("cut", node);
  }

  // Headings: no word on two lines. A file's name may be broken where the page marks it.
  for (const heading of document.querySelectorAll("h1, h2, h3, thead th, figcaption")) {
    if (!shown(heading)) continue;
    const words = document.createTreeWalker(heading, NodeFilter.SHOW_TEXT);
    for (let node = words.nextNode(); node; node = words.nextNode()) {
      for (const word of node.data.matchAll(/\S+/g)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) say(`"${word[0]}" is broken`, heading);
      }
    }
  }

  // Blocks that follow each other do not overlap.
  for (const block of document.querySelectorAll("header > *, main > *, section > *, .card > *, figure > *")) {
    const next = block.nextElementSibling;
    if (next && shown(block) && shown(next) && overlap(block.getBoundingClientRect(), next.getBoundingClientRect())) say("overlap", block, next);
  }

  // Figures: drawn, whole, and their texts apart from each other.
  for (const chart of document.querySelectorAll(".chart")) {
    const svg = chart.querySelector(".main-svg");
    if (!svg || !chart.querySelector(".trace, .hm image, .points path, .point path")) { say("blank", chart); continue; }
    const frame = chart.getBoundingClientRect();
    const groups = [".legend", ".g-xtitle text", ".g-ytitle text", ".annotation-text", ".xtick text", ".ytick text", ".slider-label", ".updatemenu-button"];
    const boxes = groups.flatMap((group) => [...chart.querySelectorAll(group)].filter((node) => shown(node) && !node.closest(".slider-labels")).map((node) => [group, node, node.getBoundingClientRect()]));
    for (const [, node, box] of boxes) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) say("cut by its figure", node);
    }
    boxes.forEach(([group, node, box], i) => boxes.slice(i + 1).forEach(([other, second, near]) => {
      const turned = group === other && /rotate\((?!0)/.test(node.getAttribute("transform") || ""); // boxes of slanted names overlap, the names do not
      if (!turned && !node.contains(second) && overlap(box, near)) say(`overlap in ${chart.dataset.chart}`, node, second);
    }));
  }
  for (const picture of document.images) if (!picture.complete || !picture.naturalWidth) say("blank", picture);
  return wrong;
}
