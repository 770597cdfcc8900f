
// What was decided: suspect -> { what: accept | keep | skip, to: class, for accept, audit: key of
// the audit in which it was decided, bulk: decided together with others of its pair }.

const WORDS = { accept: "Accepted", keep: "Kept", skip: "Skipped" };
const SHELF = `flr-audit:${audit.data}`; // the same for every audit of the same data
const BUCKETS = 64; // a decision rewrites one of them, so that thousands of decisions stay fast
const STEPS = 200; // that undo can take back after a reload

const decisions = new Map();
const past = []; // for undo: what the suspects of each step had before it
const shelf = Array.from({ length: BUCKETS }, () => new Map()); // name -> what is stored of it
let stored = true; // whether this browser keeps decisions
let exported = ""; // what the last saved file held

/** One step that undo takes back as a whole; a decision of null clears. */
function decide(changes) {
  past.push(changes.map(([i]) => [i, decisions.get(i) ?? null]));
  if (past.length > STEPS) past.shift();
  apply(changes);
}

/** The suspects of the step that was taken back, or nothing when there is none left. */
function undo() {
  const changes = past.pop() ?? [];
  apply(changes);
  return changes.map(([i]) => i);
}

function apply(changes) {
  const touched = new Set();
  for (const [i, decision] of changes) {
    if (decision) decisions.set(i, decision);
    else decisions.delete(i);
    touched.add(putOnShelf(i, decision));
  }
  store([...touched].map((bucket) => [bucket, [...shelf[bucket].values()]]));
}

function bucketOf(name) {
  let sum = 0;
  for (let at = 0; at < name.length; at += 1) sum = (31 * sum + name.charCodeAt(at)) % 65521;
  return sum % BUCKETS;
}

/** By name and label: a later audit of the same data has its suspects in another order. */
function putOnShelf(i, decision) {
  const { name, given } = suspects[i];
  const bucket = bucketOf(name);
  if (!decision) shelf[bucket].delete(name);
  else {
    const { what, to, audit: key, bulk = false } = decision;
    const label = what === "accept" ? classes[to] : "";
    shelf[bucket].set(name, { name, given: classes[given], what, label, audit: key, bulk });
  }
  return bucket;
}

function store(entries) {
  try {
    for (const [part, value] of entries) localStorage.setItem(`${SHELF}:${part}`, JSON.stringify(value));
    localStorage.setItem(`${SHELF}:past`, JSON.stringify({ audit: audit.key, steps: past }));
    stored = true;
  } catch {
    stored = false;
  }
}

const fetchStored = (part, otherwise) => JSON.parse(localStorage.getItem(`${SHELF}:${part}`)) ?? otherwise;

/** Reads what this browser kept, also when another tab has just changed it. */
function restore() {
  decisions.clear();
  past.length = 0;
  try {
    for (let bucket = 0; bucket < BUCKETS; bucket += 1) {
      shelf[bucket] = new Map(fetchStored(bucket, []).map((row) => [row.name, row]));
      for (const row of shelf[bucket].values()) takeFromShelf(row);
    }
    const { audit: key, steps } = fetchStored("past", { steps: [] });
    if (key === audit.key) past.push(...steps);
  } catch {
    stored = false;
  }
}

function takeFromShelf(row) {
  const i = suspectAt.get(row.name);
  const decision = i === undefined ? "absent" : applied(row, i);
  if (typeof decision !== "string") decisions.set(i, decision);
}

/**
 * A decision on the sample of suspect `i`, from here or from an earlier audit, as one of this
 * audit; or the reason why it cannot be one. A label that a person chose is not asked again.
 */
function applied({ given, what, label, audit: key, bulk = false }, i) {
  const now = classes[suspects[i].given];
  if (what === "accept" && label === now) return { what: "keep", audit: key, bulk };
  if (given !== now) return "changed";
  if (what === "skip" && key !== audit.key) return "skipped";
  if (what !== "accept") return { what, audit: key, bulk };
  return classAt.has(label) ? { what, to: classAt.get(label), audit: key, bulk } : "unknown";
}

const isEarlier = (decision) => decision.audit !== audit.key;

function count(what) {
  let found = 0;
  for (const decision of decisions.values()) found += decision.what === what;
  return found;
}

function saveFile() {
  exported = corrections();
  download("corrections.csv", exported, "text/csv");
}

addEventListener("beforeunload", (event) => {
  if (!stored && decisions.size && exported !== corrections()) event.preventDefault();
});
