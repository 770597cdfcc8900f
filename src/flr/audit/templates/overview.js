
// What the audit says as a whole: verdict, budget curve, pairs, classes, and what was not checked.

const ROWS = 20; // of a table before the rest is asked for
const [rate] = audit.rate;
const curve = [[0, 0], ...audit.budget];

/** Wrong labels expected among the first `reviewed` ones, between the points of the curve. */
function expected(reviewed) {
  const after = curve.findIndex(([x]) => x >= reviewed);
  if (after < 0) return curve.at(-1)[1];
  if (after === 0) return 0;
  const [[x0, y0], [x1, y1]] = [curve[after - 1], curve[after]];
  return y0 + ((y1 - y0) * (reviewed - x0)) / (x1 - x0);
}

function draw(tag, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** The part of the curve that matters here: up to twice the length of the list. */
function span() {
  const x = Math.max(1, Math.min(audit.samples, 2 * suspects.length));
  return { x, y: Math.max(1, expected(x), rate * x) };
}

const PLOT = { left: 34, top: 6, width: 300, height: 110 };

function place(reviewed, found) {
  const { x, y } = span();
  return [PLOT.left + (PLOT.width * reviewed) / x, PLOT.top + PLOT.height * (1 - found / y)];
}

const path = (points) => points.map((point) => place(...point).map((n) => n.toFixed(1)).join(",")).join(" ");

function drawBudget() {
  const { x, y } = span();
  const end = Math.min(suspects.length, x);
  const points = [...curve.filter(([at]) => at < x), [x, expected(x)]];
  const [endX] = place(end, 0);
  const [, bottom] = place(0, 0);
  const text = (at, height, words, anchor) => draw("text", { x: at, y: height, "text-anchor": anchor }, words);
  byId("curve").replaceChildren(
    draw("polyline", { class: "axis", points: path([[0, y], [0, 0], [x, 0]]) }),
    draw("line", { class: "end", x1: endX, x2: endX, y1: PLOT.top, y2: bottom }),
    draw("polyline", { class: "chance", points: path([[0, 0], [x, rate * x]]) }),
    draw("polyline", { class: "found", points: path(points) }),
    draw("circle", { class: "dot", id: "dot", r: 5 }),
    text(PLOT.left + 6, PLOT.top + 8, "↑ wrong labels found", "start"),
    text(PLOT.left - 4, PLOT.top + 8, whole(y), "end"),
    text(PLOT.left - 4, bottom, "0", "end"),
    text(PLOT.left + PLOT.width, bottom + 14, end < 0.6 * x ? whole(x) : "", "end"),
    text(endX, bottom + 14, `${whole(end)}: end of the list`, end < 0.6 * x ? "middle" : "end"),
    text(PLOT.left, bottom + 30, "labels reviewed, most suspicious first →", "start"),
  );
}

function sayBudget() {
  const reviewed = Number(byId("reviewed").value);
  const found = expected(reviewed);
  const [x, y] = place(reviewed, found);
  byId("dot").setAttribute("cx", x);
  byId("dot").setAttribute("cy", y);
  byId("finds").textContent =
    `Reviewing ${whole(reviewed)} finds ${about(found)} of ${about(rate * audit.samples)} wrong labels. ` +
    `In random order it would find ${about(rate * reviewed)}.`;
}

function startBudget() {
  const most = suspects.length;
  byId("budget").hidden = !most || !audit.budget.length;
  if (byId("budget").hidden) return;
  Object.assign(byId("reviewed"), { min: 1, max: most });
  byId("reviewed").value = Math.min(200, most);
  const missed = Math.max(0, rate * audit.samples - expected(most));
  byId("rest").textContent =
    `The list ends after ${plural(most, "suspect", "suspects")}; ` +
    `${about(missed)} wrong labels are expected among those that it does not show.`;
  drawBudget();
  sayBudget();
  byId("reviewed").addEventListener("input", sayBudget);
}

const between = ([, least, most]) => ` (${share(least).replace(/^(\d+)\u00a0%$/, "$1")} to ${share(most)})`;

/** Fills a table with its first rows, and more each time the button below is pressed. */
function fill(id, items, row) {
  const body = byId(id);
  const more = byId(`${id}-more`);
  const show = (shown) => {
    body.replaceChildren(...items.slice(0, shown).map(row));
    more.hidden = shown >= items.length;
    more.textContent = `Show more (${whole(items.length - shown)} left)`;
    more.onclick = () => show(shown + 5 * ROWS);
  };
  byId(`${id}-none`).hidden = items.length > 0;
  byId(`${id}-table`).hidden = items.length === 0;
  show(ROWS);
}

const cell = (...content) => make("td", {}, ...content);

function pairRow({ given, likely, count: times, rate: found }) {
  const show = make("button", { type: "button", class: "small" }, "Show");
  show.setAttribute("aria-label", `Show suspects given ${classes[given]} and suggested ${classes[likely]}`);
  show.addEventListener("click", () => {
    filter({ ...NO_FILTER, given, suggested: likely });
    go(0);
    byId("review").scrollIntoView();
  });
  return make(
    "tr",
    {},
    make("th", { scope: "row" }, classNamed(given), " → ", classNamed(likely)),
    cell(times < 0.5 ? "less than 1" : whole(times)),
    cell(share(found[0]), make("span", { class: "soft" }, between(found))),
    cell(show),
  );
}

function classRow({ at, labels, wrong }) {
  return make(
    "tr",
    {},
    make("th", { scope: "row" }, classNamed(at)),
    cell(whole(labels)),
    cell(share(wrong[0]), make("span", { class: "soft" }, between(wrong))),
    cell(gauge(wrong[0])),
  );
}

const ISSUES = 10; // of a kind before the rest is asked for
const KINDS = {
  conflict: "Nearly the same samples with different labels",
  near_duplicate: "Nearly the same samples",
  outlier: "Samples unlike all others",
  odd_file: "Odd files",
  rare_class: "Rare classes",
  similar_labels: "Labels that may mean the same",
};

/** Other things than labels, by kind: how many, what they are, and the samples they are about. */
function fillIssues() {
  const kinds = Map.groupBy(audit.issues, ({ kind }) => kind);
  byId("issues-part").hidden = kinds.size === 0;
  byId("issues-link").hidden = kinds.size === 0;
  byId("issues").replaceChildren(...[...kinds].map(issueGroup));
}

function issueGroup([kind, found]) {
  const list = make("ul", {});
  const more = doing("", () => show(found.length), { class: "small" });
  const show = (count) => {
    list.replaceChildren(...found.slice(0, count).map(issueItem));
    more.hidden = count >= found.length;
    more.textContent = `Show all ${whole(found.length)}`;
  };
  show(ISSUES);
  return make("details", {}, make("summary", {}, `${KINDS[kind] ?? kind} (${whole(found.length)})`), list, more);
}

function issueItem({ names, text, rows }) {
  const pictured = rows.filter((row) => samples[row] && samples[row].words === undefined);
  const pictures = pictured.slice(0, 6).map((row) => pictureButton(samples[row], null, 72));
  const looks = pictures.length ? [make("div", { class: "looks" }, ...pictures)] : [];
  const list = names.flatMap((name, n) => (n ? [", ", named(name)] : [named(name)]));
  return make("li", {}, text, " ", make("span", { class: "soft" }, ...list), ...looks);
}

/** Spreadsheets take such values for formulas; they are saved with a quote mark before them. */
function hasFormulas() {
  const risky = /^[=+\-@\t\r]/;
  return classes.some((name) => risky.test(name)) || suspects.some(({ name }) => risky.test(name));
}

function startOverview() {
  document.title = `Label audit of ${audit.site} · flr`;
  byId("site").replaceChildren(named(audit.site));
  byId("verdict").textContent = audit.verdict;
  byId("verdict").classList.toggle("unsure", audit.sure === false);
  byId("source").textContent = audit.source;
  byId("scorer").textContent = audit.scorer;
  byId("key").textContent = audit.key;
  byId("unchecked").replaceChildren(...audit.unchecked.map((sentence) => make("li", {}, sentence)));
  byId("formulas").hidden = !hasFormulas();
  fillIssues();
  startBudget();
  fill("pairs", audit.pairs, pairRow);
  fill("rates", [...audit.per_class].sort((a, b) => b.wrong[0] - a.wrong[0]), classRow);
}
