// The page of a report: choose a model, sort and search the table of bags, open a bag.
// All text from the data goes in as text (textContent), never as markup.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("bag-data").textContent);
  const $ = (id) => document.getElementById(id);
  const isClass = data.classes !== null;
  const isMany = isClass && data.classes.length > 2; // then what is shown is of the predicted class
  const percent = `${+(100 * data.level).toPrecision(6)} %`;
  const state = { model: 0, sort: null, down: false, query: "", filter: "all", page: 0, rows: 25 };
  let order = []; // positions of the bags that are shown, in the order of the table

  // ------------------------------------------------------------ numbers

  const minus = (text) => text.replace("-", "−");

  function number(value, decimals = data.decimals) {
    if (value === null || !Number.isFinite(value)) return "–";
    if (decimals === null) return minus(value.toPrecision(4));
    return minus(value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  }

  const whole = (value) => value.toLocaleString("en-US");
  const share = (value) => `${(100 * value).toFixed(value < 0.1 || value > 0.9 ? 1 : 0)} %`;

  // What is not written into the page because it follows from the rest.
  for (const model of data.models) {
    model.sd = model.mean.map((_, i) => Math.hypot(model.bag[i], model.weights[i], model.noise[i]));
    model.off = model.mean.map((mean, i) => {
      if (!isClass) return model.sd[i] > 0 ? (data.labels[i] - mean) / model.sd[i] : 0;
      return -Math.log(Math.max(isMany ? model.own[i] : data.labels[i] ? mean : 1 - mean, 1e-300));
    });
  }
  const model = () => data.models[state.model];

  // ------------------------------------------------------------ columns of the table

  const label = (i) => (isClass ? data.classes[data.labels[i]] : number(data.labels[i]));
  const place = (i) => (isMany ? model().said[i] : model().mean[i] >= 0.5 ? 1 : 0);
  const said = (i) => data.classes[place(i)];
  const predicted = isClass ? "latent value" : "prediction";
  const stated = isClass ? `P(${isMany ? "predicted" : data.classes[1]})` : "";
  const inside = (i) => isClass ? said(i) === label(i)
    : model().lower[i] <= data.labels[i] && data.labels[i] <= model().upper[i];
  const interval = (i) => `${number(model().lower[i])} to ${number(model().upper[i])}`;
  const part = (name, title) => ({ title, value: (i) => model()[name][i], text: (i) => number(model()[name][i]) });

  const columns = [
    { title: "bag", value: (i) => data.ids[i], text: (i) => data.ids[i], words: true },
    { title: "points", value: (i) => data.sizes[i], text: (i) => whole(data.sizes[i]) },
    { title: "label", value: (i) => data.labels[i], text: label, words: isClass },
    ...(isClass
      ? [{ title: "predicted", value: place, text: said, words: true },
         { title: stated, value: (i) => model().mean[i], text: (i) => number(model().mean[i]) },
         { title: `${percent} interval`, value: (i) => model().lower[i], text: interval },
         { title: "log loss", value: (i) => model().off[i], text: (i) => number(model().off[i], 2) },
         part("bag", "bag sd"), part("weights", "regression sd")]
      : [{ title: "predicted", value: (i) => model().mean[i], text: (i) => number(model().mean[i]) },
         { title: "sd", value: (i) => model().sd[i], text: (i) => number(model().sd[i]) },
         { title: `${percent} interval`, value: (i) => model().lower[i], text: interval },
         { title: "off by (sd)", value: (i) => model().off[i], text: (i) => number(model().off[i], 2) },
         part("bag", "bag sd"), part("weights", "regression sd"), part("noise", "noise sd")]),
    // the share of training bags of about its size that are as odd: of bags unlike those, next to none
    ...(data.models.some((each) => each.novelty)
      ? [{ title: "novelty", value: (i) => (model().novelty || [])[i] ?? 1,
           text: (i) => (model().novelty ? `${number(model().novelty[i], 3)}${model().novelty[i] <= 0.05 ? " ⚠" : ""}` : "–") }]
      : []),
  ];
  const natural = new Intl.Collator("en", { numeric: true });

  // ------------------------------------------------------------ building elements

  function element(tag, attributes = {}, ...children) {
    const svg = ["svg", "g", "rect", "line", "polyline", "path", "text", "circle"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // The bag that the address asks for, or null.
  function wantedBag() {
    try {
      return location.hash.startsWith("#bag=") ? decodeURIComponent(location.hash.slice(5)) : null;
    } catch {
      return null; // not a text
    }
  }

  const link = (i) => `#bag=${encodeURIComponent(data.ids[i])}`;

  // ------------------------------------------------------------ the table

  function makeHead() {
    const cells = columns.map((column, k) => {
      const button = element("button", { type: "button" }, column.title);
      button.addEventListener("click", () => {
        state.down = state.sort === k ? !state.down : false;
        state.sort = k;
        state.page = 0;
        refresh();
      });
      return element("th", { scope: "col", "aria-sort": "none", class: column.words ? "" : "number" }, button);
    });
    $("all-bags").tHead.append(element("tr", {}, ...cells));
  }

  function select() {
    const query = state.query.trim().toLowerCase();
    order = [];
    for (let i = 0; i < data.ids.length; i++) {
      if (query && !data.ids[i].toLowerCase().includes(query)) continue;
      if (state.filter === "inside" && !inside(i)) continue;
      if (state.filter === "outside" && inside(i)) continue;
      order.push(i);
    }
    if (state.sort === null) return;
    const { value } = columns[state.sort];
    const values = data.ids.map((_, i) => value(i));
    const compare = state.sort === 0 ? (a, b) => natural.compare(values[a], values[b]) : (a, b) => values[a] - values[b];
    order.sort((a, b) => (state.down ? compare(b, a) : compare(a, b)) || a - b);
  }

  function row(i) {
    const cells = columns.map((column, k) => k === 0
      ? element("th", { scope: "row", title: column.text(i) }, element("a", { href: link(i) }, column.text(i)))
      : element("td", column.words ? {} : { class: "number" }, column.text(i)));
    const made = element("tr", {}, ...cells);
    made.addEventListener("click", (event) => {
      if (event.target.closest("a") === null && String(getSelection()) === "") location.hash = link(i);
    });
    return made;
  }

  function refresh() {
    select();
    const pages = Math.max(1, Math.ceil(order.length / state.rows));
    state.page = Math.min(state.page, pages - 1);
    const start = state.page * state.rows;
    $("all-bags").tBodies[0].replaceChildren(...order.slice(start, start + state.rows).map(row));
    [...$("all-bags").tHead.rows[0].cells].forEach((cell, k) => {
      cell.setAttribute("aria-sort", k !== state.sort ? "none" : state.down ? "descending" : "ascending");
    });
    $("found").textContent = order.length === data.ids.length
      ? `${whole(order.length)} bags` : `${whole(order.length)} of ${whole(data.ids.length)} bags`;
    const last = Math.min(start + state.rows, order.length);
    $("page").textContent = order.length === 0 ? "No bag"
      : `Rows ${whole(start + 1)}–${whole(last)} of ${whole(order.length)}, page ${state.page + 1} of ${pages}`;
    for (const button of $("pages").querySelectorAll("button")) {
      const back = ["first", "previous"].includes(button.dataset.go);
      button.disabled = back ? state.page === 0 : state.page === pages - 1;
    }
  }

  function makeControls() {
    const options = isClass
      ? { all: "all bags", inside: "right class", outside: "wrong class" }
      : { all: "all bags", inside: `label inside its ${percent} interval`, outside: `label outside its ${percent} interval` };
    for (const [value, text] of Object.entries(options)) $("filter").append(element("option", { value }, text));
    const set = (name, convert = String) => (event) => {
      state[name] = convert(event.target.value);
      state.page = 0;
      refresh();
    };
    $("search").addEventListener("input", set("query"));
    $("filter").addEventListener("change", set("filter"));
    $("rows").addEventListener("change", set("rows", Number));
    $("pages").addEventListener("click", (event) => {
      const go = event.target.dataset.go;
      const last = Math.ceil(order.length / state.rows) - 1;
      if (go) state.page = { first: 0, previous: state.page - 1, next: state.page + 1, last }[go];
      if (go) refresh();
    });
    $("controls").hidden = $("pages").hidden = false;
  }

  // ------------------------------------------------------------ one bag

  const PARTS = [["bag", "bag: finitely many points"], ["weights", "weights: finitely many bags"], ["noise", "noise"]];

  function legend(names) {
    return element("ul", { class: "legend" }, ...names.map(([style, text]) =>
      element("li", {}, element("span", { class: `key ${style}` }), text)));
  }

  function numbersOf(i) {
    const rows = [["points", whole(data.sizes[i])]];
    if (data.effective) rows.push(["effective points", number(data.effective[i], 1)]);
    rows.push(["label", label(i)]);
    if (isClass) {
      rows.push(["predicted", said(i)], [stated, number(model().mean[i])],
        [`${percent} interval`, interval(i)], ["log loss", number(model().off[i], 2)]);
    } else {
      rows.push(["predicted", `${number(model().mean[i])}, sd ${number(model().sd[i])}`],
        [`${percent} interval`, interval(i)],
        ["error", `${number(data.labels[i] - model().mean[i])}, or ${number(model().off[i], 2)} sd`]);
    }
    rows.push(["model", model().name]);
    return element("dl", { class: "numbers" }, ...rows.flatMap(([name, value]) =>
      [element("dt", {}, name), element("dd", {}, value)]));
  }

  // A line with the interval, the prediction and the label on it.
  function intervalPicture(i) {
    const { lower, upper, mean } = model();
    const y = isMany ? Number(inside(i)) : data.labels[i];
    const ends = isClass ? [0, 1] : [Math.min(lower[i], y), Math.max(upper[i], y)];
    const span = ends[1] - ends[0] || 1;
    const x = (value) => 20 + (360 * (value - ends[0])) / span;
    const words = `Interval ${interval(i)}, predicted ${number(mean[i])}, label ${label(i)}.`;
    return [element("svg", { viewBox: "0 0 400 58", role: "img", "aria-label": words },
      element("line", { class: "axis", x1: 20, x2: 380, y1: 26, y2: 26 }),
      element("rect", { class: "area s0", x: x(lower[i]), y: 20, width: Math.max(x(upper[i]) - x(lower[i]), 1), height: 12, "fill-opacity": 0.45 }),
      element("path", { class: "dots s0", d: `M${x(mean[i])} 26h0` }),
      element("path", { class: "line ink", d: `M${x(y)} 12V40` }),
      ...[ends[0], ends[1]].map((end, k) => element("text", { class: k ? "end" : "", x: k ? 380 : 20, y: 54 }, number(end)))),
    legend([["s0", isClass ? `probability and its ${percent} interval` : `prediction and its ${percent} interval`], ["ink", isMany ? "label: 1 if it is the predicted class" : "label"]])];
  }

  function partsPicture(i) {
    const parts = PARTS.map(([name, text]) => ({ name, text, share: model()[name][i] ** 2 / (model().sd[i] ** 2 || 1) }))
      .filter((p) => p.share > 0);
    if (parts.length === 0) return [element("p", {}, "This model states no uncertainty of this kind.")];
    let from = 0;
    const bars = parts.map((p) => {
      const bar = element("rect", { class: `area part-${p.name}`, x: 400 * from, y: 2, width: 400 * p.share, height: 20 });
      from += p.share;
      return bar;
    });
    const most = parts.reduce((a, b) => (b.share > a.share ? b : a));
    const advice = { bag: "More points in this bag would help.", weights: "More bags like this one would help.", noise: "Neither more points nor more bags would help much." };
    const words = parts.map((p) => `${p.text} ${share(p.share)}`).join(", ");
    return [element("svg", { viewBox: "0 0 400 24", role: "img", "aria-label": `Shares of the variance: ${words}.` }, ...bars),
      legend(parts.map((p) => [`part-${p.name}`, `${p.text}, ${share(p.share)}`])),
      element("p", {}, `Most of the variance is from the ${most.name}. ${advice[most.name]}`)];
  }

  // About four round values from zero to the top of an axis.
  function roundValues(top) {
    const power = 10 ** Math.floor(Math.log10(top / 4));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= top / 5);
    return Array.from({ length: Math.floor(top / step) + 1 }, (_, k) => Number((k * step).toPrecision(6)));
  }

  // How sure the model would be of this bag if it had more points, or fewer.
  function curvePicture(i) {
    const curve = model().curves[isMany ? data.folds[i] * data.classes.length + place(i) : data.folds[i]];
    const size = data.effective ? data.effective[i] : data.sizes[i];
    const rest = Math.hypot(model().weights[i], model().noise[i]);
    if (Math.max(...curve) === 0) return [element("p", {}, "This model takes no account of the number of points.")];
    const sds = curve.map((bag) => Math.hypot(bag, rest));
    const [first, last] = [data.grid[0], data.grid[data.grid.length - 1]];
    const top = Math.max(...sds, model().sd[i]) * 1.06;
    const x = (n) => 48 + (340 * Math.log(n / first)) / Math.log(last / first);
    const y = (sd) => 150 - (140 * sd) / top;
    const at = (n) => { // between two sizes of the grid, along a straight line in log n
      const k = Math.min(Math.max(data.grid.findIndex((g) => g >= n), 1), data.grid.length - 1);
      const t = Math.log(n / data.grid[k - 1]) / Math.log(data.grid[k] / data.grid[k - 1]);
      return sds[k - 1] + Math.min(Math.max(t, 0), 1) * (sds[k] - sds[k - 1]);
    };
    const marks = roundValues(top);
    const ticks = [1, 10, 100, 1e3, 1e4, 1e5, 1e6].filter((n) => n >= first && n <= last);
    const more = [2, 4, 10].map((times) => [times, Math.round(size * times)]).filter(([, n]) => n <= last);
    const words = more.map(([times, n]) => `${number(at(n))} with ${whole(n)} points`).join(", ");
    const summary = `The sd is ${number(model().sd[i])} with ${number(size, Number.isInteger(size) ? 0 : 1)} `
      + `point${size === 1 ? "" : "s"}; it would be ${words || "hardly less with more"}. `
      + `No number of points brings it below ${number(rest)}.`;
    return [element("svg", { viewBox: "0 0 400 190", role: "img", "aria-label": `Standard deviation by number of points. ${summary}` },
      ...marks.map((sd) => element("line", { class: "grid", x1: 48, x2: 388, y1: y(sd), y2: y(sd) })),
      ...marks.map((sd) => element("text", { class: "end", x: 42, y: y(sd) + 4 }, String(sd))),
      ...ticks.map((n) => element("text", { class: "middle", x: x(n), y: 166 }, whole(n))),
      element("text", { class: "middle name", x: 218, y: 184 }, "points in the bag (log scale)"),
      element("line", { class: "line target", x1: 48, x2: 388, y1: y(rest), y2: y(rest) }),
      element("polyline", { class: "line part-bag", points: data.grid.map((n, k) => `${x(n)},${y(sds[k])}`).join(" ") }),
      element("path", { class: "dots ink", d: `M${x(Math.max(size, first))} ${y(model().sd[i])}h0` })),
    legend([["part-bag", isClass ? "sd of the latent value" : "sd"], ["ink", "this bag"]]),
    element("p", {}, summary)];
  }

  function pointsTable(i) {
    const points = (model().points || {})[i];
    if (!points) return [];
    const rows = points.map(([which, contribution, text]) => [...(which === null ? [] : [String(which)]), number(contribution), text]);
    const some = data.sampled ? `${whole(data.sampled[i])} drawn from ${whole(data.sizes[i])}` : whole(data.sizes[i]);
    return [element("h3", {}, "Points that push the prediction most"),
      table(`${points.length} of ${some}: what each adds to the ${predicted} of the average bag`,
        [...(data.sampled ? [] : ["point"]), "pushes by", "its features"], rows)];
  }

  function columnsTable(i) {
    const found = (model().columns || {})[i];
    if (!found) return [];
    const some = data.sizes[i] > data.column_points ? `, found from ${data.column_points} of its points` : "";
    return [element("h3", {}, "Columns that push the prediction most"),
      table(`From the ${predicted} of the average bag to that of this one${some}`, ["column", "pushes by"],
        found.map(([name, contribution]) => [name, number(contribution)]))];
  }

  // A table whose column "pushes by" has numbers; the first of each row names it.
  function table(caption, head, rows) {
    const kind = (k) => (head[k] === "pushes by" ? { class: "number" } : {});
    const cell = (text, k) => element(k ? "td" : "th", { ...(k ? {} : { scope: "row" }), ...kind(k) }, text);
    return element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head.map((name, k) => element("th", { scope: "col", ...kind(k) }, name)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
  }

  function show(i) {
    $("panel-title").textContent = data.ids[i];
    const why = (model().why || {})[i] || [];
    $("panel-body").replaceChildren(
      numbersOf(i),
      ...(why.length ? [element("h3", {}, "What may be behind the error"),
        element("ul", { class: "findings" }, ...why.map((text) => element("li", {}, text)))] : []),
      element("h3", {}, "Prediction and label"), ...intervalPicture(i),
      element("h3", {}, "Where the uncertainty is from"), ...partsPicture(i),
      element("h3", {}, "How many more points?"), ...curvePicture(i),
      ...columnsTable(i), ...pointsTable(i));
    const place = order.indexOf(i);
    $("before").disabled = place <= 0;
    $("after").disabled = place < 0 || place === order.length - 1;
    $("before").onclick = () => { location.hash = link(order[place - 1]); };
    $("after").onclick = () => { location.hash = link(order[place + 1]); };
    if (!$("panel").open) $("panel").showModal();
    $("panel-title").focus();
    $("panel").scrollTop = 0;
  }

  function follow() {
    const i = data.ids.indexOf(wantedBag());
    if (i >= 0) show(i);
    else if ($("panel").open) $("panel").close();
  }

  $("close").addEventListener("click", () => $("panel").close());
  $("panel").addEventListener("click", (event) => { if (event.target === $("panel")) $("panel").close(); });
  $("panel").addEventListener("close", () => {
    if (!location.hash.startsWith("#bag=")) return;
    const opener = [...document.querySelectorAll("main a")].find((a) => a.hash === location.hash);
    history.replaceState(null, "", location.pathname + location.search);
    if (opener) opener.focus({ preventScroll: true });
  });
  addEventListener("hashchange", follow);

  // ------------------------------------------------------------ model, theme, links

  $("model").addEventListener("change", (event) => {
    state.model = Number(event.target.value);
    for (const block of document.querySelectorAll(".of-model")) block.hidden = Number(block.dataset.model) !== state.model;
    refresh();
  });

  // The style sheet follows the system; the button overrules it.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const press = () => { $("theme").textContent = isDark() ? "Light colours" : "Dark colours"; };
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    press();
  });
  dark.addEventListener("change", press);
  press();

  // Names of bags in the lists of worst bags open them too.
  for (const cell of document.querySelectorAll(".bag-name")) {
    const i = data.ids.indexOf(cell.textContent);
    if (i >= 0) cell.replaceChildren(element("a", { href: link(i) }, data.ids[i]));
    cell.title = cell.textContent;
  }

  makeHead();
  makeControls();
  refresh();
  follow();
})();
