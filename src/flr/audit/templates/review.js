
// Going through the list: what is listed, which suspect is the current one, and what is done to it.

const NO_FILTER = { given: null, suggested: null, state: "all", only: null };
const view = { ...NO_FILTER, order: "probability", grid: false, at: 0, sorted: [], listed: [] };

const inOrder = new Intl.Collator("en", { numeric: true }).compare;
const ORDERS = {
  probability: (a, b) => a - b, // as they came: most probable first
  confidence: (a, b) => suspects[b].confidence - suspects[a].confidence,
  given: (a, b) => suspects[a].given - suspects[b].given,
  suggested: (a, b) => suspects[a].suggested - suspects[b].suggested,
  name: (a, b) => inOrder(suspects[a].name, suspects[b].name),
};

const current = () => view.listed[view.at];

/** Apart from `arrange`, since it takes its time and a decision does not change it. */
function sort(order) {
  view.order = order;
  view.sorted = [...suspects.keys()].sort((a, b) => ORDERS[order](a, b) || a - b);
}

/** Filters; stays at suspect `i` where it is still listed, else at the same place. */
function arrange(i = current()) {
  view.listed = view.sorted.filter(isListed);
  const place = view.listed.indexOf(i);
  const last = Math.max(0, view.listed.length - 1);
  view.at = place >= 0 ? place : Math.min(view.at, last);
}

function isListed(i) {
  const { given, suggested } = suspects[i];
  if (view.given !== null && view.given !== given) return false;
  if (view.suggested !== null && view.suggested !== suggested) return false;
  if (view.only && !view.only.has(i)) return false;
  if (view.state === "conflict") return isConflict(i);
  const decision = decisions.get(i);
  if (view.state === "earlier") return Boolean(decision) && isEarlier(decision);
  return view.state === "all" || view.state === (decision?.what ?? "open");
}

function paint() {
  paintCards();
  paintGrid();
  paintPager();
  paintProgress();
  paintFilters();
  paintBulk();
  paintSecondPanel();
}

function paintProgress() {
  const [accepted, kept, skipped] = ["accept", "keep", "skip"].map(count);
  byId("bar").max = Math.max(1, suspects.length);
  byId("bar").value = decisions.size;
  byId("progress").textContent =
    `${whole(decisions.size)} of ${plural(suspects.length, "suspect", "suspects")} decided: ` +
    `${whole(accepted)} accepted, ${whole(kept)} kept, ${whole(skipped)} skipped`;
  byId("undo").disabled = past.length === 0;
  byId("next-open").disabled = decisions.size === suspects.length;
  byId("save").disabled = decisions.size === 0;
  byId("not-stored").hidden = stored;
  paintEarlier();
}

function paintFilters() {
  for (const side of ["given", "suggested"]) {
    const text = view[side] === null ? "all classes" : classNamed(view[side]);
    byId(`filter-${side}`).replaceChildren(`${side === "given" ? "Labelled" : "Looks like"}: `, text);
  }
  byId("state").value = view.state;
  byId("order").value = view.order;
  byId("listed").textContent = `${plural(view.listed.length, "suspect", "suspects")} listed${view.only ? ": the sample" : ""}`;
}

const announce = (...parts) => byId("said").replaceChildren(...parts);

/** Makes a place of the list the current one. */
function go(at, focus = true) {
  view.at = Math.max(0, Math.min(at, view.listed.length - 1));
  paint();
  const card = cards.get(current())?.firstChild;
  if (byId("viewer").open && viewer.suspect !== null && current() !== undefined) enlarge(suspects[current()], current());
  else if (focus) card?.focus({ preventScroll: true });
  card?.scrollIntoView({ block: "nearest" });
  prepare(view.listed[view.at + 1]);
}

/** The place of the first undecided suspect from a place on; the place itself if there is none. */
function firstOpen(from = 0) {
  const found = view.listed.findIndex((i, at) => at >= from && !decisions.has(i));
  return found < 0 ? Math.min(from, Math.max(0, view.listed.length - 1)) : found;
}

/** Decides on the current suspect and goes on to the next undecided one of the list. */
function act(what, to) {
  const i = current();
  if (i === undefined) return;
  const last = view.at === view.listed.length - 1;
  const next = view.listed[firstOpen(view.at + 1)];
  if (isConflict(i)) second.settled.add(i);
  decide([[i, { what, to, audit: audit.key }]]);
  arrange(next);
  go(view.at);
  announce(...inWords(i), last ? " This was the last one of the list." : "");
  afterSample();
}

function clearCurrent() {
  const i = current();
  if (!decisions.has(i)) return;
  decide([[i, null]]);
  arrange();
  go(view.at);
  announce("Cleared: ", named(suspects[i].name), " is open again.");
}

function takeBack(focus = true) {
  const changed = undo();
  if (!changed.length) return;
  arrange(changed[0]);
  go(view.at, focus || !past.length); // a button that is disabled now would lose the focus
  const what = changed.length === 1 ? named(suspects[changed[0]].name) : plural(changed.length, "decision", "decisions");
  announce("Taken back: ", what, ".");
}

function chooseOther() {
  const i = current();
  if (i === undefined) return;
  const { given, suggested } = suspects[i];
  const others = classes.map((text, value) => ({ text, value })).filter(({ value }) => value !== given);
  others.sort((a, b) => (b.value === suggested) - (a.value === suggested));
  choose("Which class is right?", others, (to) => act("accept", to));
}

/** The next undecided one, from the start again when there is none below. */
function goToOpen() {
  const found = firstOpen(view.at + 1);
  go(decisions.has(view.listed[found]) ? firstOpen() : found);
}

const ACTS = {
  accept: () => act("accept", suspects[current()]?.suggested),
  keep: () => act("keep"),
  skip: () => act("skip"),
  other: chooseOther,
  clear: clearCurrent,
  undo: () => takeBack(),
  open: goToOpen,
  zoom: () => current() !== undefined && enlarge(suspects[current()], current()),
  classes: showClasses,
  grid: () => showGrid(!view.grid),
};

const KEYS = {
  ...{ a: "accept", k: "keep", s: "skip", c: "other", u: "undo", delete: "clear", backspace: "clear" },
  ...{ n: "open", z: "zoom", e: "classes", g: "grid" },
};

function chooseFilter(side) {
  const times = new Map();
  for (const suspect of suspects) times.set(suspect[side], (times.get(suspect[side]) ?? 0) + 1);
  const present = [...times.keys()].sort((a, b) => times.get(b) - times.get(a) || a - b);
  const entries = present.map((value) => ({ text: classes[value], value, note: ` (${whole(times.get(value))})` }));
  const all = { text: "all classes", value: null };
  const title = side === "given" ? "Show which label?" : "Show which suggestion?";
  choose(title, [all, ...entries], (value) => filter({ [side]: value, only: null }));
}

function filter(wanted) {
  Object.assign(view, wanted, { at: 0 });
  arrange();
  go(0, false);
  announce(byId("listed").textContent);
}
