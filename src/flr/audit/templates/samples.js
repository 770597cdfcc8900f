
// What a sample looks like: its picture, its text or its values; and others to compare it with.

/** The look of a suspect on its card. */
function look(i) {
  const suspect = suspects[i];
  if (suspect.words === undefined) return make("div", { class: "look" }, pictureButton(suspect, i, 112));
  if (Array.isArray(suspect.words)) return valuesBeside(i);
  return make("div", { class: "features", tabindex: "-1" }, named(suspect.words));
}

/** A picture that opens the large one. */
function pictureButton(sample, i, side) {
  const instead = (words) => make("p", { class: "features" }, words);
  if (!best(sample)) return instead("This picture is not in the page, which would be too large.");
  const image = make("img", { alt: "", decoding: "async", loading: "lazy", width: side, height: side });
  image.addEventListener("error", () => {
    if (sample.picture && !image.src.startsWith("data:")) image.src = sample.picture;
    else image.closest("button").replaceWith(instead("This picture cannot be shown."));
  });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 64));
  image.src = sample.picture ?? best(sample);
  const label = `Enlarge the picture of ${shown(sample.name)}`;
  const button = doing(image, () => enlarge(sample, i), { class: "picture", "aria-label": label, title: sample.name });
  if (i !== null) button.dataset.act = "zoom";
  return button;
}

/** The current card shows its picture in full resolution; the others have their thumbnail. */
function sharpen(card, i) {
  const image = card.querySelector(".look img");
  const wanted = best(suspects[i]);
  if (image && wanted && image.dataset.sharp !== "yes") {
    image.dataset.sharp = "yes";
    image.src = wanted;
  }
}

/** The values of a table's row, beside those of the nearest rows of both classes. */
function valuesBeside(i) {
  const { words, near, given, suggested } = suspects[i];
  const others = [[near[0][0], given], [near[1][0], suggested]].filter(([row]) => row !== undefined);
  const heading = (text) => make("th", { scope: "col" }, ...text);
  const head = make("tr", {}, heading(["value"]), heading(["this row"]));
  for (const [, label] of others) head.append(heading(["nearest ", classNamed(label)]));
  const row = ([name, value], at) => {
    const line = make("tr", {}, make("th", { scope: "row" }, named(name)), make("td", {}, named(value)));
    for (const [other] of others) line.append(make("td", {}, named(samples[other].words[at]?.[1] ?? "")));
    return line;
  };
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...words.map(row)));
  return make("div", { class: "values", tabindex: "-1" }, table);
}

/** The most alike samples of the given and of the suggested class. */
function nearest(i) {
  const { near, given, suggested, words } = suspects[i];
  const both = [[near[0], given, "given"], [near[1], suggested, "suggested"]].filter(([rows]) => rows.length);
  if (!both.length || Array.isArray(words)) return "";
  const groups = both.map(([rows, label]) => exampleGroup(rows, ["Most alike, labelled ", classNamed(label)]));
  return make("div", { class: "near" }, ...groups);
}

function exampleGroup(rows, title) {
  const one = (row) => make("li", {}, exampleLook(samples[row]));
  const list = make("ul", {}, ...rows.map(one));
  return make("div", { class: "group" }, make("p", { class: "soft" }, ...title), list);
}

function exampleLook(sample) {
  if (sample.words === undefined) return pictureButton(sample, null, 72);
  const words = Array.isArray(sample.words) ? sample.words.map((pair) => pair.join(": ")).join("\n") : sample.words;
  return make("div", { class: "excerpt" }, named(words.length > 300 ? `${words.slice(0, 300)} …` : words));
}

/** Typical samples of a class, in a dialog with the current suspect's two classes first. */
function showClasses() {
  const i = current();
  if (i === undefined) return;
  const { given, suggested } = suspects[i];
  byId("classes-list").replaceChildren(...[given, suggested].map(typicalOf));
  byId("classes").showModal();
  byId("classes-close").focus();
}

function typicalOf(label) {
  const rows = audit.typical[label] ?? [];
  const group = rows.length ? exampleGroup(rows, ["Typical samples with this label"]) : "No sample.";
  return make("section", {}, make("h3", {}, classNamed(label)), group);
}
