
// The list as a grid of small pictures: many at a glance; the buttons below act on the marked one.

const IN_LIST = 20; // suspects on a page
const IN_GRID = 60;
const perPage = () => (view.grid ? IN_GRID : IN_LIST);

function makeTile(i) {
  const { name, given, suggested } = suspects[i];
  const pair = [classNamed(given), " → ", classNamed(suggested)];
  const label = make("p", { id: `name-${i}`, class: "unseen" }, "Sample ", named(name));
  const claim = make("p", { id: `claim-${i}`, class: "claim" }, shortPercent(i), ...pair);
  return article(i, "tile", tileLook(i), label, claim, decidedLine(i));
}

/** The eye needs the number only; a screen reader says what it is. */
const shortPercent = (i) =>
  make("strong", {}, share(suspects[i].probability), make("span", { class: "unseen" }, " likely wrong. "), " ");

function tileLook(i) {
  const { words, picture } = suspects[i];
  if (words === undefined && best(suspects[i])) {
    const image = make("img", { alt: "", decoding: "async", loading: "lazy", src: picture ?? best(suspects[i]) });
    image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 64));
    return image;
  }
  const text = Array.isArray(words) ? words.map((pair) => pair.join(": ")).join("\n") : words ?? "No picture";
  return make("div", { class: "excerpt" }, named(text.slice(0, 160)));
}

/** Tiles in a row, to go up and down by; one in the list. */
function tilesInRow() {
  if (!view.grid) return 1;
  const tops = [...byId("suspects").children].map((item) => item.offsetTop);
  return Math.max(1, tops.filter((top) => top === tops[0]).length);
}

function showGrid(grid) {
  if (grid === view.grid) return;
  view.grid = grid;
  cards.clear();
  byId("suspects").replaceChildren();
  go(view.at);
  announce(grid ? "Shown as a grid." : "Shown as a list.");
}

function paintGrid() {
  byId("suspects").classList.toggle("grid", view.grid);
  byId("as-list").setAttribute("aria-pressed", !view.grid);
  byId("as-grid").setAttribute("aria-pressed", view.grid);
  byId("dock").hidden = !view.grid || current() === undefined;
  if (byId("dock").hidden) return;
  byId("dock-words").replaceChildren(named(suspects[current()].name), ": ", ...sentence(current()));
  for (const part of byId("dock").querySelectorAll("[data-act]")) paintButton(part, current());
  byId("dock").querySelector("[data-act=zoom]").hidden = !best(suspects[current()]);
}

function startGrid() {
  byId("as-list").addEventListener("click", () => showGrid(false));
  byId("as-grid").addEventListener("click", () => showGrid(true));
  byId("dock").addEventListener("click", ({ target }) => {
    const button = target.closest("[data-act]");
    if (button) ACTS[button.dataset.act]();
  });
  byId("suspects").addEventListener("dblclick", ({ target }) => {
    if (view.grid && target.closest("article")) showGrid(false);
  });
}
