
// A page of cards at a time: the document stays small however many suspects there are.

const cards = new Map(); // suspect -> its card, for the suspects of this page only

function paintCards() {
  const first = view.at - (view.at % PER_PAGE);
  const page = view.listed.slice(first, first + PER_PAGE);
  for (const i of cards.keys()) if (!page.includes(i)) cards.delete(i);
  for (const i of page) if (!cards.has(i)) cards.set(i, makeCard(i));
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
  const words = make("div", { class: "words" }, title, claim(i), make("p", { class: "reason" }, reason));
  const decided = make("span", { class: "decided", id: `decided-${i}` });
  const outcome = make("p", { class: "outcome" }, decided, " ", button("clear", "Clear", "Delete"));
  const attributes = { id: `card-${i}`, class: "card", "aria-labelledby": `name-${i} claim-${i} decided-${i}` };
  return make("li", {}, make("article", attributes, look(i), words, buttons(), outcome));
}

/** The thumbnail, or the features where there is none. */
function look(i) {
  const { name, picture, features } = suspects[i];
  if (picture === null) return make("p", { class: "features" }, named(features));
  const image = make("img", { alt: `Thumbnail of ${name}`, decoding: "async", width: 112, height: 112 });
  const instead = make("p", { class: "features" }, "This picture cannot be shown.");
  image.addEventListener("error", () => image.replaceWith(instead));
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 64));
  image.src = picture;
  return image;
}

function claim(i) {
  const { given, suggested, probability, confidence } = suspects[i];
  const says = (term, ...words) => make("div", {}, make("dt", {}, term), " ", make("dd", {}, ...words));
  return make(
    "dl",
    { id: `claim-${i}` },
    says("Given", classNamed(given)),
    says("Suggested", classNamed(suggested), ` (${share(confidence)} sure)`),
    says("Given label is wrong", share(probability), " ", gauge(probability)),
  );
}

function buttons() {
  return make(
    "div",
    { class: "acts" },
    button("accept", "Accept", "A"),
    button("keep", "Keep", "K"),
    button("skip", "Skip", "S"),
    button("other", "Other …", "C"),
  );
}

function button(act, text, key) {
  const attributes = { type: "button", "data-act": act, "aria-keyshortcuts": key };
  return make("button", attributes, text, " ", make("kbd", { "aria-hidden": "true" }, key));
}

function paintCard(i) {
  const card = cards.get(i).firstChild;
  const decision = decisions.get(i);
  const isCurrent = i === current();
  card.classList.toggle("current", isCurrent);
  card.tabIndex = isCurrent ? 0 : -1;
  if (isCurrent) card.setAttribute("aria-current", "true");
  else card.removeAttribute("aria-current");
  card.dataset.decision = decision?.what ?? "";
  for (const button of card.querySelectorAll("button")) paintButton(button, i, isCurrent);
  const words = inWords(i);
  const decided = card.querySelector(".decided");
  if (decided.textContent !== make("p", {}, ...words).textContent) decided.replaceChildren(...words);
}

function paintButton(button, i, isCurrent) {
  const { act } = button.dataset;
  const decision = decisions.get(i);
  const other = decision?.what === "accept" && decision.to !== suspects[i].suggested;
  button.tabIndex = isCurrent ? 0 : -1; // the arrow keys lead to the other cards
  if (act === "clear") button.hidden = !decision;
  else button.setAttribute("aria-pressed", act === (other ? "other" : decision?.what));
}

/** The decision on a suspect, as parts of a sentence. */
function inWords(i) {
  const decision = decisions.get(i);
  if (!decision) return ["Undecided"];
  if (decision.what === "accept") return ["Accepted: the label becomes ", classNamed(decision.to), "."];
  if (decision.what === "keep") return ["Kept: the label stays ", classNamed(suspects[i].given), "."];
  return ["Skipped: left open."];
}
