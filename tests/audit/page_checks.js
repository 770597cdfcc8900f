// Rules for the page that are checked inside the browser; each gives what breaks it.

const start = (element) => element.outerHTML.slice(0, 120);
const all = (css) => [...document.querySelectorAll(css)];

function nameOf(element) {
  const others = (element.getAttribute("aria-labelledby") ?? "").split(" ");
  const named = others.map((id) => document.getElementById(id)?.textContent ?? "").join("");
  const labels = [...(element.labels ?? [])].map((label) => label.textContent).join("");
  return element.getAttribute("aria-label") || named || labels || element.textContent || element.alt;
}

/** Controls and landmarks that a screen reader could not name. */
function unnamed() {
  const kinds = "button, input, select, a, progress, article, dialog, img:not([alt='']), svg, pre[tabindex], nav";
  const open = all(kinds).filter((e) => !e.closest("dialog:not([open]), [hidden]"));
  return open.filter((e) => !nameOf(e)?.trim()).map(start);
}

/** What sticks out to the right of the window. */
function tooWide() {
  const inside = (e) => e.getBoundingClientRect().right <= innerWidth + 0.5;
  return all("body *").filter((e) => !inside(e) && !e.closest(".skip, .unseen, #chooser-list")).map(start);
}

const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

function rgba(color) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}

/** Relative luminance, as WCAG defines it. */
function light([red, green, blue]) {
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
}

function behind(element) {
  for (let e = element; e; e = e.parentElement) {
    const color = rgba(getComputedStyle(e).backgroundColor);
    if (color[3] === 255) return color;
  }
  return [255, 255, 255];
}

/** Visible text whose contrast with what is behind it is below 4.5 to 1 (WCAG AA). */
function hardToRead() {
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    const seen = texts.currentNode.data.trim() && e.checkVisibility();
    if (!seen || e.closest("script, noscript, option, .unseen, :disabled")) continue;
    const style = getComputedStyle(e);
    const [dark, bright] = [rgba(e.closest("svg") ? style.fill : style.color), behind(e)].map(light).sort((a, b) => a - b);
    if ((bright + 0.05) / (dark + 0.05) < 4.5) found.push(start(e));
  }
  return found;
}
