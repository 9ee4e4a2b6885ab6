"use strict";
// Tooltips only: without this script every number is still in a table.
(() => {
  const tip = document.createElement("div");
  tip.className = "tooltip";
  tip.hidden = true;
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  const svgns = "http://www.w3.org/2000/svg";
  const halo = document.createElementNS(svgns, "circle");
  halo.setAttribute("class", "halo");
  halo.setAttribute("r", "6");

  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const left = Math.max(8, Math.min(x + 14, width - box.width - 8));
    const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${top + scrollY}px`;
  };
  const hide = () => {
    tip.hidden = true;
    halo.remove();
  };

  // Points of a plot of trials: coordinates are in the path, numbers of the trials beside it.
  const points = new WeakMap();
  const read = (svg) => {
    if (!points.has(svg)) {
      const found = [];
      for (const path of svg.querySelectorAll("path[data-n]")) {
        const numbers = path.dataset.n.split(",");
        const places = path.getAttribute("d").matchAll(/M([\d.]+) ([\d.]+)/g);
        [...places].forEach((m, i) => found.push([+m[1], +m[2], numbers[i]]));
      }
      points.set(svg, found);
    }
    return points.get(svg);
  };
  const trial = (number) => {
    const row = document.getElementById(`t${number}`);
    if (!row) return `trial ${number}`;
    const heads = row.closest("table").tHead.rows[0].cells;
    return [...row.cells]
      .map((cell, i) => [heads[i].textContent, cell.textContent.trim()])
      .filter(([, value]) => value)
      .map(([name, value]) => `${name}: ${value}`)
      .join("\n");
  };
  const nearest = (svg, event) => {
    const matrix = svg.getScreenCTM();
    if (!matrix) return null;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let best = null;
    let least = 12 * 12;
    for (const point of read(svg)) {
      const distance = (point[0] - at.x) ** 2 + (point[1] - at.y) ** 2;
      if (distance < least) [best, least] = [point, distance];
    }
    return best;
  };
  let pointed = null; // the trial that the tooltip shows, so that a click means the same one
  for (const svg of document.querySelectorAll("svg.trial-marks")) {
    svg.addEventListener("pointermove", (event) => {
      const point = (pointed = nearest(svg, event));
      if (!point) return hide();
      halo.setAttribute("cx", point[0]);
      halo.setAttribute("cy", point[1]);
      svg.append(halo);
      show(trial(point[2]), event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => {
      pointed = null;
      hide();
    });
    svg.addEventListener("click", (event) => {
      const point = pointed ?? nearest(svg, event);
      const row = point && document.getElementById(`t${point[2]}`);
      if (!row) return;
      row.closest("details").open = true;
      location.hash = row.id;
    });
  }

  // Everything else carries its text in a title, which a browser shows late or not at all.
  for (const shape of document.querySelectorAll("g.tip")) {
    const title = shape.querySelector("title");
    const text = title.textContent;
    shape.setAttribute("aria-label", text);
    title.remove();
    shape.addEventListener("pointermove", (event) => show(text, event.clientX, event.clientY));
    shape.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", hide, { passive: true });
  addEventListener("beforeprint", () => {
    hide();
    for (const fold of document.querySelectorAll("#scenarios details, #environment details")) fold.open = true;
  });
})();
