
// What was decided: suspect -> { what: accept | keep | skip, to: class, for accept }.

const WORDS = { accept: "Accepted", keep: "Kept", skip: "Skipped" };
const SHELF = `flr-audit:${audit.key}`;

const decisions = new Map();
const past = []; // for undo: what the suspects of each step had before it
let stored = true; // whether this browser keeps decisions
let exported = ""; // what the last saved file held

/** One step that undo takes back as a whole; a decision of null clears. */
function decide(changes) {
  past.push(changes.map(([i]) => [i, decisions.get(i) ?? null]));
  apply(changes);
}

/** The suspects of the step that was taken back, or nothing when there is none left. */
function undo() {
  const changes = past.pop() ?? [];
  apply(changes);
  return changes.map(([i]) => i);
}

function apply(changes) {
  for (const [i, decision] of changes) {
    if (decision) decisions.set(i, decision);
    else decisions.delete(i);
  }
  keepStored();
}

function keepStored() {
  try {
    localStorage.setItem(SHELF, JSON.stringify([...decisions]));
    stored = true;
  } catch {
    stored = false;
  }
}

/** Reads what this browser kept, also when another tab has just changed it. */
function restore() {
  try {
    const kept = JSON.parse(localStorage.getItem(SHELF) ?? "[]");
    decisions.clear();
    past.length = 0;
    for (const [i, decision] of kept) if (sound(i, decision)) decisions.set(i, decision);
  } catch {
    stored = false;
  }
}

function sound(i, { what, to }) {
  const known = Number.isInteger(i) && i in suspects && Object.hasOwn(WORDS, what);
  return known && (what !== "accept" || (Number.isInteger(to) && to in classes));
}

function count(what) {
  let found = 0;
  for (const decision of decisions.values()) found += decision.what === what;
  return found;
}

function saveFile() {
  const text = corrections();
  const link = make("a", { download: "corrections.csv" });
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  exported = text;
}

addEventListener("beforeunload", (event) => {
  if (!stored && decisions.size && exported !== corrections()) event.preventDefault();
});
