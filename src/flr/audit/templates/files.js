
// Files in and out, and the keys and clicks of the list.

const SAVED = {
  corrections: saveFile,
  json: () => download("label-studio.json", studioJson(), "application/json"),
  csv: () => download("label-studio.csv", studioCsv(), "text/csv"),
};

/** Reads a file and says in one line what became of it; one that does not fit changes nothing. */
async function readFile(file, id, then) {
  const said = (words) => (byId(id).textContent = `${file.name}: ${words}`);
  try {
    const found = readDecisions(await file.text());
    if (!found.changes.length && found.earlier) throw new Error(`Nothing in it can be used here.${leftOut(found.left)}`);
    then(found);
    said(takenWords(found));
  } catch (error) {
    said(`does not fit. ${error.message}`);
  }
}

function takenWords({ changes, left, earlier }) {
  const many = plural(changes.length, "decision", "decisions");
  if (!earlier) return `${many} loaded. Undo takes them back.`;
  const of = (what) => whole(changes.filter(([, decision]) => decision.what === what).length);
  const kinds = `${of("accept")} accepted, ${of("keep")} kept, ${of("skip")} skipped`;
  return `${many} of another audit or program taken over, by name and label: ${kinds}.${leftOut(left)}`;
}

function takeOver({ changes }) {
  decide(changes);
  arrange();
  paint();
}

function compare(name) {
  return (found) => {
    compareWith(name, found);
    byId("second-found").scrollIntoView({ block: "nearest" });
  };
}

/** Single keys work outside of text fields and dialogs; held ones do not decide again and again. */
function onKey(event) {
  const asking = byId("chooser").open || byId("classes").open || (byId("viewer").open && viewer.suspect === null);
  if (event.ctrlKey || event.altKey || event.metaKey || asking || !byId("keys").checked) return;
  if (event.target.matches("input:not([type=checkbox]), select")) return;
  const step = byId("suspects").contains(event.target) ? arrowStep(event.key) : undefined;
  const todo = step ? () => go(view.at + step) : actOf(event);
  if (!todo) return;
  event.preventDefault();
  if (step || !event.repeat) todo();
}

function actOf({ key, target }) {
  if (key === "Enter" && view.grid && target.matches("article")) return () => showGrid(false);
  return ACTS[KEYS[key.toLowerCase()]];
}

function arrowStep(key) {
  const sideways = view.grid ? { ArrowRight: 1, ArrowLeft: -1 }[key] : undefined;
  const down = { ArrowDown: 1, ArrowUp: -1 }[key];
  return down ? down * tilesInRow() : sideways;
}

/** A click on a card makes it the current one; a click on its button decides as well. */
function onClick(event) {
  const card = event.target.closest("article");
  if (!card) return;
  const button = event.target.closest("[data-act]");
  view.at = view.listed.indexOf(Number(card.id.slice("card-".length)));
  if (event.target.closest(".second")) return; // settled by its own buttons
  paint();
  if (button && button.dataset.act !== "zoom") ACTS[button.dataset.act]();
}

function onFile(id, then) {
  byId(id).addEventListener("change", ({ target }) => {
    if (target.files.length) then(target.files[0]);
    target.value = ""; // so that the same file can be loaded again
  });
}

function restoreAll() {
  restore();
  try {
    restoreChecks();
    restoreSecond();
  } catch {
    stored = false;
  }
}

function startReview() {
  restoreAll();
  store([]); // finds out whether this browser keeps anything
  sort(view.order);
  arrange();
  view.at = firstOpen();
  paint();
  byId("suspects").addEventListener("click", onClick);
  byId("undo").addEventListener("click", () => takeBack(false));
  byId("next-open").addEventListener("click", goToOpen);
  for (const save of document.querySelectorAll("[data-save]")) save.addEventListener("click", SAVED[save.dataset.save]);
  onFile("file", (file) => readFile(file, "loaded", takeOver));
  onFile("second-file", (file) => readFile(file, "second-loaded", compare(file.name)));
  for (const side of ["given", "suggested"]) byId(`filter-${side}`).addEventListener("click", () => chooseFilter(side));
  byId("show-all").addEventListener("click", () => filter(NO_FILTER));
  byId("state").addEventListener("change", ({ target }) => filter({ state: target.value, only: null }));
  byId("order").addEventListener("change", ({ target }) => {
    sort(target.value);
    filter({});
  });
  document.addEventListener("keydown", onKey);
  addEventListener("storage", ({ key }) => {
    if (!key?.startsWith(SHELF)) return;
    restoreAll();
    arrange();
    paint();
  });
}
