
// A second reviewer: the decisions of another person beside one's own, never mixed in unasked.

const second = { name: "", decisions: new Map(), settled: new Set() };

const hasOpinion = (decision) => Boolean(decision) && decision.what !== "skip";
const sameDecision = (a, b) => a.what === b.what && (a.what !== "accept" || a.to === b.to);

/** Both decided, and differently; one that was looked at again is settled. */
function isConflict(i) {
  const [mine, theirs] = [decisions.get(i), second.decisions.get(i)];
  return hasOpinion(mine) && hasOpinion(theirs) && !sameDecision(mine, theirs) && !second.settled.has(i);
}

/** The label that a decision leads to. */
const labelAfter = (i, { what, to }) => (what === "accept" ? to : suspects[i].given);

function comparison() {
  const [ours, other] = [decisions, second.decisions].map((from) => (i) => hasOpinion(from.get(i)));
  const both = [...second.decisions.keys()].filter((i) => ours(i) && other(i));
  const same = both.filter((i) => sameDecision(decisions.get(i), second.decisions.get(i)));
  const theirs = [...second.decisions.keys()].filter((i) => other(i) && !ours(i));
  const mine = [...decisions.keys()].filter((i) => ours(i) && !other(i));
  return { both, same, theirs, mine, conflicts: both.filter(isConflict) };
}

/** Cohen's kappa of "the given label is right" against "another one is": agreement beyond chance. */
function kappa(both) {
  const isWrong = (from, i) => labelAfter(i, from.get(i)) !== suspects[i].given;
  const wrong = (from) => both.filter((i) => isWrong(from, i)).length / both.length;
  const [mine, theirs] = [wrong(decisions), wrong(second.decisions)];
  const alike = (i) => isWrong(decisions, i) === isWrong(second.decisions, i);
  const seen = both.filter(alike).length / both.length;
  const chance = mine * theirs + (1 - mine) * (1 - theirs);
  return chance === 1 ? 1 : (seen - chance) / (1 - chance);
}

function paintSecondPanel() {
  const present = second.decisions.size > 0;
  byId("second-found").hidden = !present;
  byId("state-conflict").hidden = !present;
  if (!present) return;
  const { both, same, theirs, mine, conflicts } = comparison();
  byId("second-words").textContent = both.length
    ? `You and ${second.name} both decided ${whole(both.length)}: the same for ${whole(same.length)} ` +
      `(${share(same.length / both.length)}; kappa ${kappa(both).toFixed(2)}). ` +
      `${plural(conflicts.length, "conflict is", "conflicts are")} open.`
    : `You and ${second.name} have not decided the same suspects yet.`;
  byId("second-only").textContent = `Only you decided ${whole(mine.length)}, only the other reviewer ${whole(theirs.length)}.`;
  byId("second-show").disabled = !conflicts.length;
  byId("second-take").disabled = !theirs.length;
  byId("second-take").textContent = `Take over the ${whole(theirs.length)} that only the other decided`;
}

/** On a card: what the other said, and in a conflict whose word counts. */
function paintSecond(card, i) {
  const theirs = second.decisions.get(i);
  const outcome = card.querySelector(".outcome");
  outcome?.querySelector(".second")?.remove();
  if (!outcome || !hasOpinion(theirs)) return;
  const label = classNamed(labelAfter(i, theirs));
  const line = make("p", { class: "second" }, "Second reviewer: ", label, ". ");
  if (isConflict(i)) {
    line.classList.add("conflict");
    line.append(doing("Mine is right", () => settle(i, null)), " ", doing("Theirs is right", () => settle(i, theirs)));
  }
  outcome.append(line);
}

function settle(i, decision) {
  second.settled.add(i);
  const next = view.listed[view.listed.indexOf(i) + 1];
  if (decision) decide([[i, { ...decision, audit: audit.key }]]);
  storeSecond();
  arrange(next ?? i);
  go(view.at);
  announce("Settled: ", ...inWords(i));
}

function takeTheirs() {
  const { theirs } = comparison();
  decide(theirs.map((i) => [i, { ...second.decisions.get(i), audit: audit.key }]));
  arrange();
  paint();
  announce(`${plural(theirs.length, "decision", "decisions")} of the other reviewer taken over. Undo takes them back.`);
}

function compareWith(name, { changes }) {
  Object.assign(second, { name, decisions: new Map(changes), settled: new Set() });
  storeSecond();
  arrange();
  paint();
}

function storeSecond() {
  const { name, decisions: theirs, settled } = second;
  store([["second", { audit: audit.key, name, decisions: [...theirs], settled: [...settled] }]]);
}

function restoreSecond() {
  const { audit: key, name, decisions: theirs, settled } = fetchStored("second", {});
  if (key === audit.key) Object.assign(second, { name, decisions: new Map(theirs), settled: new Set(settled) });
}

function startSecond() {
  byId("second-show").addEventListener("click", () => filter({ ...NO_FILTER, state: "conflict" }));
  byId("second-take").addEventListener("click", takeTheirs);
  byId("second-close").addEventListener("click", () => {
    const state = view.state === "conflict" ? "all" : view.state;
    compareWith("", { changes: [] });
    filter({ state });
  });
}
