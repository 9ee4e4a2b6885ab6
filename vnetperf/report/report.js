"use strict";
// Tooltips, saving of plots, sorting and filtering of trials: without this script every number
// is still in a table.
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

  // Over time: the columns of the drawing are the rows of the table of its data.
  for (const svg of document.querySelectorAll("svg[data-at]")) {
    const places = svg.dataset.at.split(" ").map(Number);
    const table = svg.closest("figure").querySelector(".data table");
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const line = document.createElementNS(svgns, "path");
    line.setAttribute("class", "halo");
    svg.addEventListener("pointermove", (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse()).x;
      const row = Math.max(0, places.findLastIndex((place) => place <= x));
      const cells = [...table.tBodies[0].rows[row].cells];
      line.setAttribute("d", `M${places[row]} 12V226`);
      svg.append(line);
      show(cells.map((cell, i) => `${heads[i]}: ${cell.textContent.trim()}`).join("\n"), event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => {
      line.remove();
      hide();
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
  // A saved drawing stands alone: what the style sheet gives it is written into it.
  const looks = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "paint-order"];
  const dressed = (shape) => {
    const copy = shape.cloneNode(true);
    const made = copy.querySelectorAll("*");
    shape.querySelectorAll("*").forEach((each, i) => {
      const style = getComputedStyle(each);
      for (const name of looks) made[i].setAttribute(name, style.getPropertyValue(name));
    });
    return copy;
  };
  const element = (tag, attributes, text = "") => {
    const made = document.createElementNS(svgns, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };
  // With its title above it and its legend below it, on the ground of its figure.
  const standalone = (svg) => {
    const figure = svg.closest("figure");
    const shared = figure.closest(".plots")?.parentElement.querySelector(":scope > .legend");
    const entries = [...(figure.querySelector(".legend") ?? shared)?.children ?? []];
    const { width, height } = svg.viewBox.baseVal;
    const box = [-12, -22, width + 24, height + 30 + 15 * Math.ceil(entries.length / 2)];
    const style = getComputedStyle(figure);
    const words = { fill: style.color, "font-family": style.fontFamily, "font-size": 10 };
    const copy = dressed(svg);
    const ground = { x: box[0], y: box[1], width: box[2], height: box[3], fill: style.backgroundColor };
    copy.prepend(element("rect", ground));
    copy.append(element("text", { ...words, x: 0, y: -8, "font-weight": 600 }, svg.getAttribute("aria-label")));
    entries.forEach((entry, i) => {
      const [x, y] = [(i % 2) * 210, height + 4 + 15 * Math.floor(i / 2)];
      const key = dressed(entry.querySelector("svg"));
      for (const [name, value] of Object.entries({ x, y, width: 28, height: 12 })) key.setAttribute(name, value);
      copy.append(key, element("text", { ...words, x: x + 34, y: y + 10 }, entry.textContent));
    });
    const size = { xmlns: svgns, viewBox: box.join(" "), width: 2 * box[2], height: 2 * box[3] };
    for (const [name, value] of Object.entries(size)) copy.setAttribute(name, value);
    return new XMLSerializer().serializeToString(copy);
  };
  for (const figure of document.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg.plot, svg[role=img]");
    const button = document.createElement("button");
    button.className = "save";
    button.type = "button";
    button.textContent = "Save as SVG";
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([standalone(svg)], { type: "image/svg+xml" }));
      link.download = `${svg.getAttribute("aria-label").replace(/[^\w.]+/g, "-")}.svg`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    figure.append(button);
  }

  // A cell as a number: "12.3 Mfps", "2 min 05 s", "1.00e-05 %"; as its words where it has none.
  const factors = { Gfps: 1e9, Mfps: 1e6, kfps: 1e3, h: 3600, min: 60, ms: 1e-3, "\u00b5s": 1e-6, ns: 1e-9 };
  const value = (cell) => {
    const said = cell.textContent.replaceAll("\u00a0", "").trim();
    const parts = [...said.matchAll(/(-?[\d.]+(?:e[+-]?\d+)?)\s*([a-z\u00b5%]*)/gi)];
    if (!parts.length) return said === "no number" ? -Infinity : said;
    return parts.reduce((sum, [, number, unit]) => sum + number * (factors[unit] ?? 1), 0);
  };
  const sort = (head) => {
    const table = head.closest("table");
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const number = head.classList.contains("num");
    const rows = [...table.tBodies[0].rows].map((row) => {
      const cell = row.cells[head.cellIndex];
      return [number ? value(cell) : cell.textContent, row];
    });
    const turn = down ? -1 : 1;
    rows.sort(([a], [b]) => turn * (number ? a - b : a.localeCompare(b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  const lists = [...document.querySelectorAll(".trials-list")];
  for (const table of lists) {
    table.classList.add("sortable");
    for (const head of table.tHead.rows[0].cells) {
      head.tabIndex = 0;
      head.title = "Sort by this column";
      head.addEventListener("click", () => sort(head));
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          sort(head);
        }
      });
    }
  }
  if (lists.length) {
    const bar = document.createElement("div");
    bar.className = "filter";
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "Filter trials: words that a row must have";
    field.setAttribute("aria-label", field.placeholder);
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    bar.append(field, count);
    document.querySelector("#trials .folds").before(bar);
    const known = lists.map((table) => {
      const fold = table.closest("details");
      const name = fold.querySelector("summary b").textContent.toLowerCase();
      return { fold, name, rows: [...table.tBodies[0].rows] };
    });
    const filter = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let matches = 0;
      for (const { fold, name, rows } of known) {
        let mine = 0;
        for (const row of rows) {
          const said = words.length ? `${name} ${row.textContent.toLowerCase()}` : "";
          row.hidden = !words.every((word) => said.includes(word));
          mine += !row.hidden;
        }
        fold.hidden = !mine;
        if (words.length && mine) fold.open = true;
        matches += mine;
      }
      count.textContent = words.length ? `${matches} trials` : "";
    };
    let soon = 0;
    field.addEventListener("input", () => {
      clearTimeout(soon);
      soon = setTimeout(filter, 150);
    });
  }

  addEventListener("scroll", hide, { passive: true });
  addEventListener("beforeprint", () => {
    hide();
    for (const fold of document.querySelectorAll("#scenarios details, #environment details")) fold.open = true;
  });
})();
