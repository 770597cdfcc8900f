
// Going through the list: what is listed, which suspect is the current one, and what is done to it.

const PER_PAGE = 20;
const view = { given: null, suggested: null, state: "all", order: "probability", at: 0, sorted: [], listed: [] };

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
  return view.state === "all" || view.state === (decisions.get(i)?.what ?? "open");
}

function paint() {
  paintCards();
  paintPager();
  paintProgress();
  paintFilters();
}

function paintPager() {
  const pages = Math.max(1, Math.ceil(view.listed.length / PER_PAGE));
  const page = Math.floor(view.at / PER_PAGE);
  byId("page").textContent = `Page ${whole(page + 1)} of ${whole(pages)}`;
  byId("before").disabled = page === 0;
  byId("after").disabled = page >= pages - 1;
}

function paintProgress() {
  const [accepted, kept, skipped] = ["accept", "keep", "skip"].map(count);
  byId("bar").max = Math.max(1, suspects.length);
  byId("bar").value = decisions.size;
  byId("progress").textContent =
    `${whole(decisions.size)} of ${plural(suspects.length, "suspect", "suspects")} decided: ` +
    `${whole(accepted)} accepted, ${whole(kept)} kept, ${whole(skipped)} skipped`;
  byId("undo").disabled = past.length === 0;
  byId("save").disabled = decisions.size === 0;
  byId("not-stored").hidden = stored;
}

function paintFilters() {
  for (const side of ["given", "suggested"]) {
    const text = view[side] === null ? "all classes" : classNamed(view[side]);
    byId(`filter-${side}`).replaceChildren(`${side === "given" ? "Given" : "Suggested"}: `, text);
  }
  byId("state").value = view.state;
  byId("order").value = view.order;
  byId("listed").textContent = `${plural(view.listed.length, "suspect", "suspects")} listed`;
}

const announce = (...parts) => byId("said").replaceChildren(...parts);

/** Makes a place of the list the current one. */
function go(at, focus = true) {
  view.at = Math.max(0, Math.min(at, view.listed.length - 1));
  paint();
  const card = cards.get(current())?.firstChild;
  if (focus) card?.focus({ preventScroll: true });
  card?.scrollIntoView({ block: "nearest" });
}

/** Decides on the current suspect and goes on to the next one of the list. */
function act(what, to) {
  const i = current();
  if (i === undefined) return;
  const next = view.listed[view.at + 1];
  decide([[i, { what, to }]]);
  arrange(next ?? i);
  go(view.at);
  announce(...inWords(i), next === undefined ? " This was the last one of the list." : "");
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

const ACTS = {
  accept: () => act("accept", suspects[current()]?.suggested),
  keep: () => act("keep"),
  skip: () => act("skip"),
  other: chooseOther,
  clear: clearCurrent,
  undo: () => takeBack(),
};

const KEYS = { a: "accept", k: "keep", s: "skip", c: "other", u: "undo", delete: "clear", backspace: "clear" };

function chooseFilter(side) {
  const times = new Map();
  for (const suspect of suspects) times.set(suspect[side], (times.get(suspect[side]) ?? 0) + 1);
  const present = [...times.keys()].sort((a, b) => times.get(b) - times.get(a) || a - b);
  const entries = present.map((value) => ({ text: classes[value], value, note: ` (${whole(times.get(value))})` }));
  const all = { text: "all classes", value: null };
  choose(`Show which ${side} class?`, [all, ...entries], (value) => filter({ [side]: value }));
}

function filter(wanted) {
  Object.assign(view, wanted, { at: 0 });
  arrange();
  go(0, false);
  announce(byId("listed").textContent);
}

const showAll = () => filter({ given: null, suggested: null, state: "all" });

async function loadFile(file) {
  const said = (words) => (byId("loaded").textContent = `${file.name}: ${words}`);
  try {
    const changes = readCorrections(await file.text());
    decide(changes);
    arrange();
    paint();
    said(`${plural(changes.length, "decision", "decisions")} loaded. Undo takes them back.`);
  } catch (error) {
    said(`does not fit. ${error.message}`);
  }
}

/** Single keys work outside of text fields and dialogs; held ones do not decide again and again. */
function onKey(event) {
  const busy = event.ctrlKey || event.altKey || event.metaKey || byId("chooser").open;
  if (busy || !byId("keys").checked || event.target.matches("input:not([type=checkbox]), select")) return;
  const inside = byId("suspects").contains(event.target);
  const step = inside ? { ArrowDown: 1, ArrowUp: -1 }[event.key] : undefined;
  const todo = step ? () => go(view.at + step) : ACTS[KEYS[event.key.toLowerCase()]];
  if (!todo) return;
  event.preventDefault();
  if (step || !event.repeat) todo();
}

/** A click on a card makes it the current one; a click on its button decides as well. */
function onClick(event) {
  const card = event.target.closest("article");
  if (!card) return;
  view.at = view.listed.indexOf(Number(card.id.slice("card-".length)));
  paint();
  const button = event.target.closest("button");
  if (button) ACTS[button.dataset.act]();
}

function startReview() {
  restore();
  keepStored();
  sort(view.order);
  arrange();
  paint();
  byId("suspects").addEventListener("click", onClick);
  byId("before").addEventListener("click", () => go(view.at - (view.at % PER_PAGE) - PER_PAGE));
  byId("after").addEventListener("click", () => go(view.at - (view.at % PER_PAGE) + PER_PAGE));
  byId("undo").addEventListener("click", () => takeBack(false));
  byId("save").addEventListener("click", saveFile);
  byId("file").addEventListener("change", ({ target }) => {
    if (target.files.length) loadFile(target.files[0]);
    target.value = ""; // so that the same file can be loaded again
  });
  byId("filter-given").addEventListener("click", () => chooseFilter("given"));
  byId("filter-suggested").addEventListener("click", () => chooseFilter("suggested"));
  byId("show-all").addEventListener("click", showAll);
  byId("state").addEventListener("change", ({ target }) => filter({ state: target.value }));
  byId("order").addEventListener("change", ({ target }) => {
    sort(target.value);
    filter({});
  });
  document.addEventListener("keydown", onKey);
  addEventListener("storage", ({ key }) => {
    if (key !== SHELF) return;
    restore();
    arrange();
    paint();
  });
}
