
// What earlier audits of the same data have settled: said in a line, shown or forgotten on demand.

const earlierOnes = () => [...decisions.keys()].filter((i) => isEarlier(decisions.get(i)));

function paintEarlier() {
  const found = earlierOnes();
  byId("earlier").hidden = !found.length;
  if (!found.length) return;
  const kept = found.filter((i) => decisions.get(i).what === "keep").length;
  byId("earlier-words").textContent =
    `${plural(found.length, "decision was", "decisions were")} taken over from an earlier audit of this data, ` +
    `by name and label: ${whole(kept)} kept, ${whole(found.length - kept)} accepted. These are not asked again.`;
}

function forgetEarlier() {
  decide(earlierOnes().map((i) => [i, null]));
  arrange();
  go(firstOpen());
  announce("They are undecided again. Undo brings them back.");
}

function startEarlier() {
  byId("earlier-show").addEventListener("click", () => filter({ ...NO_FILTER, state: "earlier" }));
  byId("earlier-forget").addEventListener("click", forgetEarlier);
}
