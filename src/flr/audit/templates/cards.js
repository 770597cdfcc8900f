
// A page of cards at a time: the document stays small however many suspects there are.

const cards = new Map(); // suspect -> its card, for the suspects of this page only

function paintCards() {
  const first = view.at - (view.at % perPage());
  const page = view.listed.slice(first, first + perPage());
  for (const i of cards.keys()) if (!page.includes(i)) cards.delete(i);
  for (const i of page) if (!cards.has(i)) cards.set(i, make("li", {}, view.grid ? makeTile(i) : makeCard(i)));
  const items = page.map((i) => cards.get(i));
  const list = byId("suspects");
  const same = items.length === list.children.length && items.every((item, n) => item === list.children[n]);
  if (!same) list.replaceChildren(...items);
  list.start = first + 1;
  for (const i of page) paintCard(i);
  byId("nothing").hidden = view.listed.length > 0;
}

function makeCard(i) {
  const { name, reason } = suspects[i];
  const title = make("h3", { id: `name-${i}` }, "Sample ", named(name));
  const why = make("details", {}, make("summary", {}, "Why"), make("p", { class: "reason" }, reason));
  const claim = make("p", { id: `claim-${i}`, class: "claim" }, percent(i), " ", ...sentence(i));
  const words = make("div", { class: "words" }, title, claim, why);
  const outcome = make("div", { class: "outcome" }, decidedLine(i), " ", button("clear", "Clear", "Delete"));
  // a text or a table may be long, so the question stands above it
  const parts = suspects[i].words === undefined ? [look(i), words, buttons()] : [words, buttons(), look(i)];
  return article(i, "card", ...parts, nearest(i), outcome);
}

function article(i, kind, ...parts) {
  const attributes = { id: `card-${i}`, class: kind, "aria-labelledby": `name-${i} claim-${i} decided-${i}` };
  return make("article", attributes, ...parts);
}

const decidedLine = (i) => make("p", { class: "decided", id: `decided-${i}` });

function percent(i) {
  const [first, ...rest] = share(suspects[i].probability);
  return make("strong", { class: "percent" }, first.toUpperCase(), rest.join(""), " likely wrong.");
}

/** The one sentence on a suspect. */
function sentence(i) {
  const { given, suggested } = suspects[i];
  return ["Labelled ", classNamed(given), ", but looks like ", classNamed(suggested), "."];
}

function buttons() {
  return make(
    "div",
    { class: "acts" },
    button("accept", "Accept", "A"),
    button("keep", "Keep", "K"),
    button("skip", "Skip", "S"),
    button("other", "Other …", "C"),
    button("classes", "Compare classes", "E"),
  );
}

function button(act, text, key) {
  const attributes = { type: "button", "data-act": act, "aria-keyshortcuts": key };
  return make("button", attributes, text, " ", make("kbd", { "aria-hidden": "true" }, key));
}

function paintCard(i) {
  const card = cards.get(i).firstChild;
  const isCurrent = i === current();
  card.classList.toggle("current", isCurrent);
  card.tabIndex = isCurrent ? 0 : -1;
  if (isCurrent) card.setAttribute("aria-current", "true");
  else card.removeAttribute("aria-current");
  if (isCurrent && !view.grid) sharpen(card, i);
  card.dataset.decision = decisions.get(i)?.what ?? "";
  // the arrow keys lead to the other cards, so only this one is in the order of the tab key
  for (const part of card.querySelectorAll("button, summary, [tabindex]")) part.tabIndex = isCurrent ? 0 : -1;
  for (const part of card.querySelectorAll("[data-act]")) paintButton(part, i);
  paintSecond(card, i);
  const words = view.grid ? inFewWords(i) : inWords(i);
  const decided = card.querySelector(".decided");
  if (decided.textContent !== make("p", {}, ...words).textContent) decided.replaceChildren(...words);
}

function paintButton(button, i) {
  const { act } = button.dataset;
  const decision = decisions.get(i);
  const other = decision?.what === "accept" && decision.to !== suspects[i].suggested;
  if (act === "clear") button.hidden = !decision;
  else if (Object.hasOwn(WORDS, act) || act === "other") {
    button.setAttribute("aria-pressed", act === (other ? "other" : decision?.what));
  }
}

/** The same on a tile, where there is little room. */
function inFewWords(i) {
  const decision = decisions.get(i);
  if (!decision) return [make("span", { class: "unseen" }, "Undecided")];
  return decision.what === "skip" ? ["Skipped"] : [`${WORDS[decision.what]}: `, classNamed(labelAfter(i, decision))];
}

/** The decision on a suspect, as parts of a sentence. */
function inWords(i) {
  const decision = decisions.get(i);
  if (!decision) return ["Undecided"];
  const when = (isEarlier(decision) ? " in an earlier audit" : "") + (decision.bulk ? " together with its pair" : "");
  if (decision.what === "accept") return [`Accepted${when}: the label becomes `, classNamed(decision.to), "."];
  if (decision.what === "keep") return [`Kept${when}: the label stays `, classNamed(suspects[i].given), "."];
  return ["Skipped: left open."];
}
