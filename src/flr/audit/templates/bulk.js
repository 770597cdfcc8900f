
// Deciding a whole pair of classes at once: only after a person has looked at a sample of it.

const SAMPLE = 10; // suspects of a pair to look at first, from the most to the least suspicious
const MORE = 10; // that a person may add
const checks = new Map(); // "given,suggested" -> the suspects of its sample

const pairKey = () => (view.given === null || view.suggested === null ? null : `${view.given},${view.suggested}`);

function ofPair() {
  const isOne = ({ given, suggested }) => given === view.given && suggested === view.suggested;
  return [...suspects.keys()].filter((i) => isOne(suspects[i]));
}

/** Evenly spread over the order of suspicion: the first ones alone would say too much good. */
function spread(from, count) {
  const taken = Math.min(count, from.length);
  const step = (from.length - 1) / Math.max(1, taken - 1);
  return Array.from({ length: taken }, (_, n) => from[Math.round(n * step)]);
}

const lookedAt = (i) => decisions.has(i) && !decisions.get(i).bulk && !isEarlier(decisions.get(i));

/** What the panel says and offers, for the pair that the filters choose. */
function paintBulk() {
  const key = pairKey();
  const open = key === null ? [] : ofPair().filter((i) => !decisions.has(i));
  const sample = checks.get(key);
  byId("bulk").hidden = key === null || (!sample && open.length <= SAMPLE);
  if (byId("bulk").hidden) return;
  byId("bulk-title").replaceChildren("All ", classNamed(view.given), " → ", classNamed(view.suggested), " together");
  byId("bulk-words").textContent = sample ? checkedWords(sample, open) : startWords(open);
  byId("bulk-acts").replaceChildren(...bulkButtons(sample, open));
}

const startWords = (open) =>
  `${whole(open.length)} suspects of this pair are undecided. ` +
  `Look at ${SAMPLE} of them, spread over all, before you decide the rest at once.`;

function checkedWords(sample, open) {
  const done = sample.filter(lookedAt);
  const ofAll = `${done.length} of the ${sample.length}`;
  if (done.length < sample.length) {
    return `Looked at ${ofAll} of the sample. The rest can be decided when you have looked at all.`;
  }
  const { accept = 0, keep = 0, other = 0, skip = 0 } = tally(sample);
  const found =
    `Of the ${sample.length} in the sample you accepted ${accept}, kept ${keep}, ` +
    `gave ${other} another class and skipped ${skip}.`;
  if (!open.length) return `${found} None of this pair is undecided.`;
  const misfits = sample.length - Math.max(accept, keep);
  const wrong = whole((open.length * misfits) / sample.length);
  return (
    `${found} If the rest is like the sample, one decision for all ${whole(open.length)} would be wrong ` +
    `for about ${wrong} of them; so small a sample could miss up to ${share(atWorst(sample.length, misfits))}.`
  );
}

/** How many of a sample were accepted, kept, given another class and skipped. */
function tally(sample) {
  const found = {};
  for (const i of sample) {
    const { what, to } = decisions.get(i);
    const how = what === "accept" && to !== suspects[i].suggested ? "other" : what;
    found[how] = (found[how] ?? 0) + 1;
  }
  return found;
}

/** The largest share of misfits that would still show so few of them in 1 of 20 samples. */
function atWorst(size, misfits) {
  let [low, high] = [misfits / size, 1];
  for (let step = 0; step < 40; step += 1) {
    const p = (low + high) / 2;
    if (atMost(size, misfits, p) > 0.05) low = p;
    else high = p;
  }
  return high;
}

/** Probability of so few misfits or fewer, each with probability p. */
function atMost(size, misfits, p) {
  let term = (1 - p) ** size;
  let sum = term;
  for (let k = 1; k <= misfits; k += 1) {
    term *= ((size - k + 1) / k) * (p / (1 - p));
    sum += term;
  }
  return sum;
}

function bulkButtons(sample, open) {
  if (!sample) return [doing(`Look at ${SAMPLE}`, () => startCheck(SAMPLE), { class: "main" })];
  const allOfPair = doing("Show the whole pair", showPair);
  if (!sample.every(lookedAt)) return [doing("Go to the sample", showSample, { class: "main" }), allOfPair];
  const rest = whole(open.length);
  const all = open.length ? [["accept", "Accept"], ["keep", "Keep"], ["skip", "Skip"]] : [];
  const buttons = all.map(([what, verb]) => doing(`${verb} the other ${rest}`, () => decideRest(what, open)));
  if (open.length > MORE) buttons.push(doing(`Look at ${MORE} more`, () => startCheck(MORE)));
  return [...buttons, allOfPair];
}

function startCheck(count) {
  const open = ofPair().filter((i) => !decisions.has(i));
  const sample = [...(checks.get(pairKey()) ?? []), ...spread(open, count)];
  checks.set(pairKey(), sample);
  store([["checks", { audit: audit.key, samples: [...checks] }]]);
  showSample();
}

function showSample() {
  const sample = checks.get(pairKey());
  filter({ only: new Set(sample), state: "all" });
  go(firstOpen());
}

/** Leads back to the panel when the last one of the sample has been looked at. */
function afterSample() {
  if (!view.only || ![...view.only].every(lookedAt)) return;
  byId("bulk").scrollIntoView({ block: "center" });
  byId("bulk-acts").querySelector("button")?.focus({ preventScroll: true });
}

function showPair() {
  filter({ only: null });
  go(0);
}

function decideRest(what, open) {
  decide(open.map((i) => [i, { what, to: suspects[i].suggested, audit: audit.key, bulk: true }]));
  showPair();
  announce(`${WORDS[what]}: ${plural(open.length, "suspect", "suspects")}. Undo takes all of them back.`);
}

function restoreChecks() {
  checks.clear();
  const { audit: key, samples } = fetchStored("checks", { samples: [] });
  if (key === audit.key) for (const [pair, sample] of samples) checks.set(pair, sample);
}
