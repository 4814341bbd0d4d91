/* Live figures of "Attention, Derived": one custom element, <attention-live>, in plain JavaScript.

   Inside it stand its numbers, as JSON in a script element, and a still picture. The picture stays
   where this file does not run, and in print. Nothing is fetched.

   The first part computes what attention.reference and attention.masks compute; the tests compare
   the two. The second part draws. */
(() => {
  "use strict";

  // ------------------------------------------------------------------------------- what is computed
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const sum = (xs) => xs.reduce((total, x) => total + x, 0);
  const argmax = (xs) => xs.indexOf(Math.max(...xs));

  /** Weights of one row of scores; zeros where every score is -Infinity. */
  function softmax(scores) {
    const maximum = Math.max(...scores);
    if (maximum === -Infinity) return scores.map(() => 0);
    const exponentials = scores.map((x) => Math.exp(x - maximum));
    const total = sum(exponentials);
    return exponentials.map((x) => x / total);
  }

  const entropy = (p) => sum(p.map((x) => (x > 0 ? -x * Math.log(x) : 0)));
  const jacobian = (p) => p.map((a, i) => p.map((b, j) => a * ((i === j) - b)));
  const norm = (matrix) => Math.sqrt(sum(matrix.flat().map((x) => x * x)));

  function spread(xs) {
    const mean = sum(xs) / xs.length;
    return Math.sqrt(sum(xs.map((x) => (x - mean) ** 2)) / xs.length);
  }

  /** The scores of one panel: raw, or divided by the root of the width; moved, then cooled or heated. */
  function panelScores(data, scaled, { width, temperature, moved }) {
    const divisor = data.temperatures[temperature] * (scaled ? Math.sqrt(data.widths[width]) : 1);
    return data.scores[width].map((x, j) => (x + (moved[j] || 0)) / divisor);
  }

  /** L rows of S booleans, true = may attend: causal, padding and window together. */
  function allowed(L, S, { causal, keys, back, ahead }) {
    const offset = causal === "lower_right" ? S - L : 0;
    const sees = (at, j) => j < keys && j >= at - back && j <= at + (causal ? 0 : ahead);
    return range(L).map((i) => range(S).map((j) => sees(i + offset, j)));
  }

  const masked = (scores, mask) =>
    scores.map((row, i) => softmax(row.map((x, j) => (mask[i][j] ? x : -Infinity))));

  /** The numbers of an (L, H d) matrix in the order of (H, L, d): moved, or (wrong) as they lie in memory. */
  const split = (x, L, H, d, right) =>
    right
      ? range(H).flatMap((h) => range(L).flatMap((i) => range(d).map((r) => x[(i * H + h) * d + r])))
      : x.slice();

  /** And back, from (H, L, d) to (L, H d). */
  const merge = (x, L, H, d, right) =>
    right
      ? range(L).flatMap((i) => range(H).flatMap((h) => range(d).map((r) => x[(h * L + i) * d + r])))
      : x.slice();

  globalThis.attentionLive = {
    allowed, entropy, jacobian, masked, merge, norm, panelScores, softmax, split, spread,
  };
  if (typeof customElements === "undefined" || customElements.get("attention-live")) return;

  // -------------------------------------------------------------------------------- how it is drawn
  const number = (x) => x.toFixed(3).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

  function h(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
    return node;
  }

  /** A slider with its name and its value in words. */
  function slider(name, max, value, words = String) {
    const shown = h("b", { "aria-hidden": true });
    const input = h("input", { type: "range", min: 0, max, value });
    input.showValue = () => {
      const text = words(+input.value);
      shown.textContent = text;
      input.setAttribute("aria-valuetext", text);
    };
    return { input, node: h("label", { class: "control" }, h("span", null, name, " ", shown), input) };
  }

  /** A list to choose from, with its name. */
  function choice(name, options, chosen) {
    const select = h("select", null, Object.entries(options).map(([value, words]) =>
      h("option", { value, selected: value === chosen && "" }, words)));
    return { input: select, node: h("label", { class: "control" }, h("span", null, name), select) };
  }

  /** Controls in a form, whose reset button restores the start; `draw` runs at each change. */
  function controls(parts, draw, reset = () => {}) {
    const form = h("form", null, parts.map((part) => part.node),
      h("button", { type: "reset" }, "Reset"));
    const update = () => {
      parts.forEach(({ input }) => input.showValue && input.showValue());
      draw();
    };
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { reset(); update(); }));
    return { form, update };
  }

  /** What is seen, in words: heard by those who use a screen reader, read by all. */
  function speaker() {
    const node = h("p", { class: "says", role: "status" });
    let timer;
    node.say = (words) => {
      clearTimeout(timer);
      const speak = () => { if (node.textContent !== words) node.textContent = words; };
      if (node.textContent) timer = setTimeout(speak, 150);
      else speak();
    };
    return node;
  }

  /** Let arrow keys walk through the buttons of a table, of which one is in the order of tabs. */
  function walk(table) {
    const rows = () => [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("button")]);
    const enter = (button) => {
      table.querySelectorAll("button").forEach((each) => { each.tabIndex = each === button ? 0 : -1; });
    };
    table.addEventListener("keydown", (event) => {
      const grid = rows();
      const i = grid.findIndex((row) => row.includes(document.activeElement));
      if (i < 0) return;
      const j = grid[i].indexOf(document.activeElement);
      const next = {
        ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], ArrowUp: [i - 1, j], ArrowDown: [i + 1, j],
        Home: [i, 0], End: [i, grid[i].length - 1],
      }[event.key];
      if (!next) return;
      event.preventDefault();
      const button = (grid[next[0]] || [])[next[1]];
      if (button) button.focus();
    });
    table.addEventListener("focusin", (event) => enter(event.target));
    enter(table.querySelector("button"));
  }

  const head = (cells) => h("thead", null, h("tr", null, cells.map((cell) =>
    cell === "" ? h("td") : h("th", { scope: "col" }, cell))));

  // ------------------------------------------------------------------ from scores to weights
  function weightsFigure(data) {
    const { keys, temperatures, widths, start } = data;
    const width = widths.length > 1 &&
      slider(["width ", h("i", null, "d"), h("sub", null, "k")], widths.length - 1, start.width,
        (at) => String(widths[at]));
    const temperature = slider("temperature τ", temperatures.length - 1, start.temperature,
      (at) => String(temperatures[at]));
    const steps = data.reach * 4; // quarters, to either side
    const moves = data.reach
      ? keys.map((key) => slider(`add to ${key}`, 2 * steps, steps,
        (at) => number((at - steps) / 4).replace(/\.?0+$/, "")))
      : [];
    const panels = h("div", { class: "panels" });
    const says = speaker();

    function draw() {
      const state = {
        width: width ? +width.input.value : 0,
        temperature: +temperature.input.value,
        moved: moves.map(({ input }) => (input.value - steps) / 4),
      };
      const seen = data.panels.map(({ name, scaled }) => {
        const z = panelScores(data, scaled, state);
        const p = softmax(z);
        return { name, z, p, J: jacobian(p) };
      });
      panels.replaceChildren(...seen.map((panel) => weightsPanel(keys, panel)));
      says.say(seen.map(({ name, p, J }) =>
        `With ${name} the largest weight is ${number(Math.max(...p))}, of ${keys[argmax(p)]}; ` +
        `entropy ${number(entropy(p))}, norm of the Jacobian ${number(norm(J))}.`).join(" "));
    }
    const { form, update } = controls([width, temperature, ...moves].filter(Boolean), draw);
    update();
    return [form, panels, says];
  }

  function weightsPanel(keys, { name, z, p, J }) {
    const rows = p.map((x, j) => h("tr", null,
      h("th", { scope: "row" }, keys[j]),
      h("td", { class: "wide" }, number(z[j])),
      h("td", { class: "bar", style: `--p:${x}` }, h("i"), number(x))));
    const facts = [
      ["std of the scores", spread(z)],
      ["largest weight", Math.max(...p)],
      [`entropy, at most ${number(Math.log(p.length))}`, entropy(p)],
      ["norm of the Jacobian", norm(J)],
    ];
    const written = p.length <= 4;
    const squares = J.flat().map((x) => h("span", { class: x < 0 ? "minus" : "plus" },
      h("i", { style: `--s:${2 * Math.sqrt(Math.abs(x))}` }), written && h("small", null, number(x))));
    const label = `Jacobian of the softmax, ${name}, row by row: ` +
      (written ? J.map((row) => row.map(number).join(", ")).join("; ")
        : `the largest entry is ${number(Math.max(...J.flat()))}, the smallest ${number(Math.min(...J.flat()))}`);
    return h("section", { "aria-label": name },
      h("p", { class: "title" }, name),
      h("table", null, h("caption", { class: "sr" }, `weights from ${name}`), h("thead", null, h("tr", null, h("th", { scope: "col" }, "key"),
        h("th", { scope: "col", class: "wide" }, "score"), h("th", { scope: "col" }, "weight"))),
      h("tbody", null, rows)),
      h("dl", null, facts.map(([word, x]) => [h("dt", null, word), h("dd", null, number(x))])),
      h("div", { class: "squares", role: "img", "aria-label": label, style: `--n:${p.length}` }, squares),
      h("p", { class: "key" }, "Jacobian by area: ", h("span", { class: "plus" }, h("i"), " > 0,"), " ",
        h("span", { class: "minus" }, h("i"), " < 0")));
  }

  // --------------------------------------------------------------------------- the mask painter
  function maskFigure(data) {
    const { scores, start } = data;
    const [L, S] = [scores.length, scores[0].length];
    const limit = (n) => (n >= S ? Infinity : n); // the last stop of a window's slider
    const reach = (n) => (n >= S ? "all" : String(n));
    const causal = choice("causal", {
      "": "no", upper_left: "yes, upper left", lower_right: "yes, lower right",
    }, start.causal || "");
    const keys = slider("real keys", S, start.keys);
    const back = slider("keys before", S, start.back, reach);
    const ahead = slider("keys after", S, start.ahead, reach);
    let mask;
    let painting = null;

    function fill(painted) {
      mask = allowed(L, S, {
        causal: causal.input.value, keys: +keys.input.value,
        back: limit(+back.input.value), ahead: limit(+ahead.input.value),
      });
      painted.forEach(([i, j]) => { mask[i][j] = !mask[i][j]; });
    }

    const buttons = range(L).map((i) => range(S).map((j) => h("button", { type: "button" })));
    const sums = range(L).map(() => h("td"));
    const bodies = range(L).map((i) => h("tr", null, h("th", { scope: "row" }, i),
      buttons[i].map((button) => h("td", null, button)), sums[i]));
    const table = h("table", { class: "paint" },
      h("caption", null, "weights: queries down, keys across; paint on it"),
      head(["query", ...range(S), "sum"]), h("tbody", null, bodies));
    const ours = bits("True = may attend: this book and PyTorch’s function", L, S);
    const theirs = bits("True = may not attend: PyTorch’s module", L, S);
    const says = speaker();

    function draw() {
      masked(scores, mask).forEach((row, i) => {
        const empty = !mask[i].includes(true);
        bodies[i].className = empty ? "empty" : "";
        sums[i].textContent = empty ? "0" : number(sum(row)).replace(/\.000$/, "");
        row.forEach((x, j) => {
          const button = buttons[i][j];
          const words = mask[i][j] ? `may attend, weight ${number(x)}` : "may not attend, weight 0";
          button.className = mask[i][j] ? "" : "off";
          button.style.setProperty("--p", x);
          button.textContent = mask[i][j] ? number(x).replace(/^0|\.000$/, "") : "×";
          button.setAttribute("aria-pressed", mask[i][j]);
          button.setAttribute("aria-label", `query ${i}, key ${j}: ${words}`);
        });
      });
      ours.show(mask, true);
      theirs.show(mask, false);
      const count = sum(mask.flat().map(Number));
      const none = range(L).filter((i) => !mask[i].includes(true));
      says.say(`${count} of ${L * S} pairs are allowed. ` + (none.length
        ? `Nothing to attend to for ${none.length === 1 ? "query" : "queries"} ${none.join(", ")}: ` +
          "weights and output are 0 there, not NaN."
        : "Every query has a key to attend to, and its weights sum to 1."));
    }

    const paint = (button, value) => {
      const i = buttons.findIndex((row) => row.includes(button));
      if (i < 0) return;
      mask[i][buttons[i].indexOf(button)] = value;
      draw();
    };
    const at = (button) => button.getAttribute("aria-pressed") === "true";
    // A mouse or a pen paints as it is dragged; a finger taps, so that the page can still be scrolled.
    table.addEventListener("pointerdown", (event) => {
      const button = event.target.closest("button");
      if (!button || event.pointerType === "touch" || event.button) return;
      painting = !at(button);
      paint(button, painting);
    });
    table.addEventListener("pointerover", (event) => {
      const button = event.target.closest("button");
      if (button && painting !== null && event.buttons) paint(button, painting);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      addEventListener(end, () => setTimeout(() => { painting = null; })); // after the click
    }
    table.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button && painting === null) paint(button, !at(button));
    });

    let painted = start.painted;
    const { form, update } = controls([causal, keys, back, ahead], () => {
      fill(painted);
      painted = [];
      draw();
    }, () => { painted = start.painted; });
    update();
    walk(table);
    return [form, table, h("div", { class: "panels" }, ours.node, theirs.node), says];
  }

  /** A boolean matrix as letters. */
  function bits(name, L, S) {
    const cells = range(L).map(() => range(S).map(() => h("td")));
    const rows = cells.map((row, i) => h("tr", null, h("th", { scope: "row" }, i), row));
    return {
      node: h("table", { class: "bits" }, h("caption", null, name), head(["", ...range(S)]),
        h("tbody", null, rows)),
      show: (mask, polarity) => mask.forEach((row, i) => row.forEach((value, j) => {
        cells[i][j].textContent = value === polarity ? "T" : "F";
        cells[i][j].className = value === polarity ? "true" : "";
      })),
    };
  }

  // ------------------------------------------------------------- the heads axis, there and back
  function axisFigure(data) {
    const { start, most } = data;
    const size = (name, key) => slider(name, most[key] - 1, start[key] - 1, (at) => String(at + 1));
    const [L, H, d] = [size("positions L", "L"), size("heads H", "H"), size("width d of a head", "d")];
    const way = (name, right, wrong, key) => choice(name, { right, wrong }, start[key]);
    const splitWay = way("split by", "view, transpose (right)", "view alone (wrong)", "split");
    const mergeWay = way("merge by", "transpose, reshape (right)", "reshape alone (wrong)", "merge");
    const place = h("div", { class: "axis" });
    const says = speaker();
    let chosen = 0;

    function draw() {
      const [nL, nH, nd] = [L, H, d].map(({ input }) => +input.value + 1);
      const wide = nH * nd;
      const x = range(nL * wide); // a number is its place in memory: position × H d + component
      const heads = split(x, nL, nH, nd, splitWay.input.value === "right");
      const back = merge(heads, nL, nH, nd, mergeWay.input.value === "right");
      if (chosen >= x.length) chosen = 0;
      const label = (n) => `${Math.floor(n / wide)}${n % wide}`;
      const cell = (n, pick) => h("td", { class: `block${Math.floor((n % wide) / nd)}`, "data-n": n },
        pick ? h("button", { type: "button" }, label(n)) : label(n));
      const grid = (name, numbers, columns, word, pick) =>
        h("table", { class: "index" }, h("caption", null, name),
          h("tbody", null, range(numbers.length / columns).map((i) => h("tr", null,
            h("th", { scope: "row" }, h("span", { class: "sr" }, `${word} `), i),
            numbers.slice(i * columns, (i + 1) * columns).map((n) => cell(n, pick))))));
      const projection = grid(`projection (${nL}, ${wide})`, x, wide, "position", true);
      place.replaceChildren(
        projection,
        h("div", { class: "heads" }, range(nH).map((g) =>
          grid(`head ${g} (${nL}, ${nd})`, heads.slice(g * nL * nd, (g + 1) * nL * nd), nd, "query"))),
        grid(`merged (${nL}, ${wide})`, back, wide, "position"));
      walk(projection);

      const same = sum(heads.map((n, at) => n === split(x, nL, nH, nd, true)[at]));
      const restored = back.every((n, at) => n === at);
      const pick = (n) => {
        chosen = n;
        place.querySelectorAll("[data-n]").forEach((each) =>
          each.classList.toggle("chosen", +each.dataset.n === n));
        const at = heads.indexOf(n);
        const end = back.indexOf(n);
        says.say(`${label(n)} is component ${n % wide} of position ${Math.floor(n / wide)}. ` +
          `After the split it is component ${at % nd} of query ${Math.floor(at / nd) % nL} ` +
          `of head ${Math.floor(at / nd / nL)}; after the merge, component ${end % wide} of position ` +
          `${Math.floor(end / wide)}. Of ${plural(x.length, "number")}, ${same} ` +
          `${same === 1 ? "is" : "are"} in the right place in the heads, and the merge ` +
          `${restored ? "restores" : "does not restore"} the projection.`);
      };
      place.pick = pick;
      pick(chosen);
    }
    for (const event of ["pointerover", "focusin", "click"]) {
      place.addEventListener(event, ({ target }) => {
        const found = target.closest("[data-n]");
        if (found) place.pick(+found.dataset.n);
      });
    }
    const { form, update } = controls([L, H, d, splitWay, mergeWay], draw, () => { chosen = 0; });
    update();
    return [form, place, says];
  }

  // ------------------------------------------------------------------------- a browser of heads
  let groups = 0;

  function headsFigure(data) {
    const { weights, tokens, names, places, causal } = data;
    const group = `attention-live-${(groups += 1)}`;
    const radios = tokens.map((token, i) => h("input", {
      type: "radio", name: group, value: i, "aria-label": `query ${i}, token ${token}`,
      checked: i === data.start && "",
    }));
    const labels = tokens.map((token, i) => h("th", { scope: "col" },
      h("label", null, radios[i], h("span", null, token), h("small", null, i))));
    const marks = tokens.map(() => h("td"));
    const cells = names.map(() => tokens.map(() => h("td")));
    const table = h("table", { class: "tokens" },
      h("caption", null, "choose a query among the tokens; a row for each head, a square for each weight"),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "head"), labels)),
      h("tbody", null, h("tr", { class: "marks" }, h("th", { scope: "row" }, "place"), marks),
        names.map((name, n) => h("tr", null, h("th", { scope: "row" }, name), cells[n]))));
    const says = speaker();

    function draw() {
      const i = radios.findIndex((radio) => radio.checked);
      labels.forEach((label, j) => { label.className = j === i ? "chosen" : ""; });
      marks.forEach((mark, j) => {
        const here = Object.keys(places).filter((name) => places[name][i] === j);
        mark.replaceChildren(h("span", null, here.join(", ")));
      });
      weights.forEach((head, n) => head[i].forEach((x, j) => {
        cells[n][j].className = causal && j > i ? "later" : "";
        cells[n][j].replaceChildren(h("i", { style: `--s:${Math.sqrt(x)}` }),
          h("span", { class: "sr" }, number(x)));
      }));
      says.say(`Query ${i}, token ${tokens[i]}. Largest weight of each head: ` +
        weights.map((head, n) => {
          const at = argmax(head[i]);
          return `${names[n]}: ${number(head[i][at])} on ${at === i ? "itself" : `${tokens[at]} at ${at}`}`;
        }).join("; ") + ".");
    }
    table.addEventListener("input", draw);
    table.addEventListener("pointerover", (event) => {
      const label = event.pointerType !== "touch" && event.target.closest("label");
      if (!label || label.firstChild.checked) return;
      label.firstChild.checked = true;
      draw();
    });
    draw();
    return [table, says];
  }

  const FIGURES = { weights: weightsFigure, mask: maskFigure, heads_axis: axisFigure, heads: headsFigure };

  const STYLE = `
attention-live { display: block; }
@media screen { attention-live[live] > :not(.live) { display: none; } }
@media print { .live { display: none; } }
.live { --a: #0072b2; --b: #b34b00; --soft: rgb(0 114 178 / 0.22); --line: rgb(128 128 128 / 0.55);
  container-type: inline-size; text-align: left; font-size: 0.9rem; line-height: 1.35;
  font-family: var(--pst-font-family-heading, inherit); }
[data-theme="dark"] .live, [data-jp-theme-light="false"] .live, [theme="dark"] .live, .vscode-dark .live {
  --a: #56b4e9; --b: #f0a04b; --soft: rgb(86 180 233 / 0.32); }
.live form { display: flex; flex-wrap: wrap; gap: 0.6rem 1.2rem; align-items: end; margin: 0 0 0.9rem; }
.live .control { flex: 1 1 9rem; max-width: 18rem; display: grid; gap: 0.15rem; margin: 0; }
.live sub { font-size: 0.85em; }
.live b { font-variant-numeric: tabular-nums; }
.live input[type="range"] { width: 100%; height: 1.6rem; margin: 0; accent-color: var(--a); }
.live select, .live [type="reset"] { min-height: 2rem; padding: 0.1rem 0.6rem; font: inherit; color: inherit;
  background: transparent; border: 1px solid var(--line); border-radius: 4px; }
.live option { color: #000; background: #fff; }
.live :focus-visible { outline: 3px solid var(--a); outline-offset: 1px; box-shadow: none; }
.live table { width: auto; margin: 0; border: 0; border-collapse: collapse; font-size: inherit; display: table;
  table-layout: auto; color: inherit; }
.live tr, .live thead, .live tbody { background: none; border: 0; }
.live th, .live td { padding: 0.1rem 0.25rem; white-space: nowrap; border: 0; text-align: right; font-weight: normal;
  vertical-align: middle; background: none; color: inherit; font-variant-numeric: tabular-nums; }
.live caption { caption-side: top; white-space: normal; text-align: left; padding: 0 0 0.25rem; color: inherit; font-size: inherit; }
.live .panels { display: grid; gap: 0.9rem 1.6rem;
  grid-template-columns: repeat(auto-fit, minmax(min(9.4rem, 100%), 1fr)); }
.live .title { font-weight: bold; margin: 0 0 0.2rem; }
.live section table { width: 100%; }
.live section th:last-child, .live .bar { width: 99%; text-align: left; }
.live .bar i { display: inline-block; height: 0.75em; margin-right: 0.35em; background: var(--a);
  width: calc((100% - 3.4em) * var(--p)); }
.live dl { display: grid; grid-template-columns: 1fr minmax(3.8em, auto); gap: 0.25rem 0.6rem; margin: 0.5rem 0; padding: 0;
  border: solid var(--line); border-width: 1px 0; }
.live dd { text-align: right; }
.live dt, .live dd { margin: 0; padding: 0; font-weight: normal; font-variant-numeric: tabular-nums; }
.live .squares { display: grid; grid-template-columns: repeat(var(--n), 1fr); max-width: 15rem; gap: 1px;
  background: var(--line); border: 1px solid var(--line); }
.live .squares > span { aspect-ratio: 1; display: grid; place-items: center; align-content: center;
  background: var(--pst-color-background, var(--jp-layout-color0, canvas)); overflow: hidden; }
.live .squares i { width: calc(94% * var(--s)); aspect-ratio: 1; box-sizing: border-box; }
.live .squares:has(small) i { width: calc(60% * var(--s)); }
.live .plus > i { background: var(--a); }
.live .minus > i { box-shadow: inset 0 0 0 2px var(--b); }
.live .key { margin: 0.3rem 0 0; font-size: 0.8rem; }
.live .key span { white-space: nowrap; }
.live .key i { display: inline-block; width: 0.7em; height: 0.7em; box-sizing: border-box; }
.live .says { margin: 0.8rem 0 0; }
.live small { font-size: min(0.75rem, 3.6cqw); }
.live .wide { display: none; }
@container (min-width: 34rem) {
  .live .wide { display: revert; }
  .live section:only-child { display: grid; grid-template-columns: 3fr 2fr; grid-auto-flow: column;
    grid-template-rows: repeat(4, auto) 1fr; column-gap: 1.6rem; }
  .live section:only-child > .squares { grid-column: 2; grid-row: 1 / span 4; width: 15rem; }
  .live section:only-child > .key { grid-column: 2; grid-row: 5; }
}
.live td button { width: 100%; min-width: 1.5rem; min-height: 2.2rem; padding: 0; border: 1px solid var(--line);
  border-radius: 0; font: inherit; font-variant-numeric: tabular-nums; color: inherit; background: transparent;
  cursor: pointer; touch-action: manipulation; }
.live .paint { width: 100%; max-width: 34rem; table-layout: fixed; margin-bottom: 0.9rem; }
.live .paint td, .live .paint th { padding: 1px; text-align: center; }
.live .paint thead { font-size: min(1em, 4.2cqw); }
.live .paint button { font-size: min(0.8rem, 4cqw); background: linear-gradient(to top, var(--soft) calc(100% * var(--p)), transparent 0); }
.live .paint .off { background: repeating-linear-gradient(45deg, var(--line) 0 1px, transparent 1px 6px); }
.live .empty > * { border-block: 2px dashed var(--b); }
.live .empty > td:last-child { font-weight: bold; }
.live .bits { align-self: end; width: 100%; max-width: 15rem; font-family: monospace; }
.live .bits caption { font-family: var(--pst-font-family-heading, sans-serif); font-size: 0.8rem; }
.live .bits td { text-align: center; }
.live .bits .true { background: var(--soft); font-weight: bold; }
.live .axis { display: grid; gap: 0.9rem; justify-items: start; }
.live .heads { display: flex; flex-wrap: wrap; gap: 0.6rem 1.2rem; }
.live .index td { width: 2rem; height: 2rem; padding: 0; text-align: center; border: 1px solid var(--line); }
.live .index button { border: 0; min-height: 2rem; }
.live .index th { padding-right: 0.4rem; }
.live .block0 { background: var(--soft); }
.live .block1 { background: repeating-linear-gradient(45deg, var(--line) 0 1px, transparent 1px 6px); }
.live .block2 { background: none; }
.live .index .chosen { outline: 3px solid var(--b); outline-offset: -2px; font-weight: bold; }
.live .tokens { table-layout: fixed; width: 100%; max-width: 40rem; }
.live .tokens th, .live .tokens td { padding: 0; text-align: center; }
.live .tokens tr > :first-child { width: min(2.4rem, 11.5cqw); font-size: min(0.8rem, 4cqw); text-align: left; }
.live .tokens thead { font-size: min(1em, 4.3cqw); }
.live .tokens label { display: grid; margin: 0; cursor: pointer; }
.live .tokens [type="radio"] { display: block; margin: 0.15rem auto; width: min(1.1rem, 5.5cqw); height: 1.1rem; accent-color: var(--a); }
.live .tokens .chosen { font-weight: bold; outline: 2px solid var(--a); outline-offset: -2px; }
.live .marks span { writing-mode: vertical-rl; font-size: 0.75rem; white-space: nowrap; }
.live .tokens td { height: 1.7rem; border: 1px solid var(--line); }
.live .tokens .marks td { height: 5rem; padding-bottom: 0.2rem; vertical-align: bottom; border: 0; }
.live .tokens td.later { background: repeating-linear-gradient(45deg, var(--line) 0 1px, transparent 1px 6px); }
.live .tokens td > i { display: block; margin: auto; width: calc(1.5rem * var(--s)); max-width: 100%; aspect-ratio: 1;
  background: var(--a); }
.live .sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

  customElements.define("attention-live", class extends HTMLElement {
    connectedCallback() {
      const source = this.querySelector("script[type='application/json']");
      if (this.hasAttribute("live")) return;
      if (!source) { // A parser announces the element before it has read what is inside.
        document.addEventListener("DOMContentLoaded", () => this.connectedCallback(), { once: true });
        return;
      }
      if (!document.getElementById("attention-live-style")) {
        document.head.append(h("style", { id: "attention-live-style" }, STYLE));
      }
      const data = JSON.parse(source.textContent);
      this.append(h("div", { class: "live" }, FIGURES[data.kind](data)));
      this.setAttribute("live", "");
    }
  });
})();
