
// One dialog to choose a class, for ten classes or ten thousand: it lists the first matches only.

const MATCHES = 50;
const chooser = { entries: [], listed: [], then: null };

/** Entries are { text, value, note }; `then` gets the value chosen. */
function choose(title, entries, then) {
  Object.assign(chooser, { entries, then });
  byId("chooser-title").textContent = title;
  byId("chooser-text").value = "";
  listMatches();
  byId("chooser").showModal();
  byId("chooser-text").focus();
}

function listMatches() {
  const wanted = byId("chooser-text").value.trim().toLocaleLowerCase();
  const found = matches(wanted);
  const option = ({ text, note = "" }) => make("option", { dir: "auto" }, shown(text) + note);
  const options = found.slice(0, MATCHES).map(option);
  chooser.listed = found;
  byId("chooser-list").replaceChildren(...options);
  byId("chooser-list").selectedIndex = options.length ? 0 : -1;
  byId("chooser-take").disabled = !options.length;
  const more = found.length > MATCHES ? ` The first ${MATCHES} are listed: type to see others.` : "";
  byId("chooser-count").textContent = `${plural(found.length, "class matches", "classes match")}.${more}`;
}

/** Those that begin with the text come first, so that a short name is found among long ones. */
function matches(wanted) {
  const first = [];
  const others = [];
  for (const entry of chooser.entries) {
    const at = entry.text.toLocaleLowerCase().indexOf(wanted);
    if (at === 0) first.push(entry);
    else if (at > 0) others.push(entry);
  }
  return first.concat(others);
}

function take() {
  const entry = chooser.listed[byId("chooser-list").selectedIndex];
  if (!entry) return;
  byId("chooser").close();
  chooser.then(entry.value);
}

function chooserKey(event) {
  if (event.key === "Enter" && event.target.tagName !== "BUTTON") {
    event.preventDefault();
    take();
  } else if (event.key === "ArrowDown" && event.target === byId("chooser-text")) {
    event.preventDefault();
    byId("chooser-list").focus();
  }
}

function startChooser() {
  byId("chooser-text").addEventListener("input", listMatches);
  byId("chooser-list").addEventListener("dblclick", take);
  byId("chooser-take").addEventListener("click", take);
  byId("chooser-cancel").addEventListener("click", () => byId("chooser").close());
  byId("chooser").addEventListener("keydown", chooserKey);
}
