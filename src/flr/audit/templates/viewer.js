
// One picture as large as it is: zoom, scroll, brighter or darker. The keys decide here, too.

const ZOOM = 1.5; // of a step
const MOST = 32; // times the size of the file
const viewer = { sample: null, suspect: null, scale: 1, fitted: true };

/** The best picture there is of a sample. */
const best = ({ file, large, picture }) => file ?? large ?? picture;

/** Opens on a suspect, or on an example (then `i` is null and the keys decide nothing). */
function enlarge(sample, i = null) {
  if (!best(sample)) return;
  Object.assign(viewer, { sample, suspect: i, fitted: true });
  const image = make("img", { alt: `Picture of ${sample.name}`, id: "viewer-image" });
  image.addEventListener("load", zoomed);
  image.addEventListener("error", () => image.src !== sample.picture && instead(image, sample), { once: true });
  image.src = best(sample);
  byId("stage").replaceChildren(image);
  byId("viewer-title").replaceChildren(named(sample.name), ": labelled ", classNamed(sample.label));
  byId("viewer-words").replaceChildren(...(i === null ? ["An example."] : [percent(i), " ", ...sentence(i)]));
  byId("viewer-acts").hidden = i === null;
  byId("viewer-note").textContent = "";
  shade();
  if (!byId("viewer").open) byId("viewer").showModal();
  byId("stage").focus();
}

/** Where the file is not where it was, the small picture is shown, and that is said. */
function instead(image, { picture }) {
  if (picture) image.src = picture;
  byId("viewer-note").textContent =
    "The file is not where it was when this page was made. This is the small picture in the page.";
}

const stageImage = () => byId("viewer-image");

function fitting() {
  const { naturalWidth: width, naturalHeight: height } = stageImage();
  const { offsetWidth, offsetHeight } = byId("stage"); // with the room of its scroll bars
  return Math.min(MOST, offsetWidth / width, offsetHeight / height);
}

function zoomed() {
  const image = stageImage();
  if (!image?.naturalWidth) return;
  if (viewer.fitted) viewer.scale = fitting();
  image.style.width = `${image.naturalWidth * viewer.scale}px`;
  image.classList.toggle("tiny", viewer.scale > 2);
  const { sample, scale } = viewer;
  const size = scale < 2 ? `at ${share(scale)}` : `${whole(scale)} times as large`;
  const original = image.src !== sample.picture || image.naturalWidth < 96;
  byId("viewer-size").textContent =
    `${whole(image.naturalWidth)} × ${whole(image.naturalHeight)} pixels, ${size}` +
    (original ? "" : ". Only this small picture is in the page");
}

/** Keeps the middle of what is seen in the middle. */
function zoom(factor) {
  const stage = byId("stage");
  const middle = [stage.scrollLeft + stage.clientWidth / 2, stage.scrollTop + stage.clientHeight / 2];
  const before = viewer.scale;
  viewer.fitted = factor === null;
  viewer.scale = factor === "full" ? 1 : Math.min(MOST, Math.max(0.02, viewer.scale * (factor ?? 1)));
  zoomed();
  const grown = viewer.scale / before;
  stage.scrollTo(middle[0] * grown - stage.clientWidth / 2, middle[1] * grown - stage.clientHeight / 2);
}

function shade() {
  const image = stageImage();
  if (image) image.style.filter = `brightness(${byId("brightness").value}%) contrast(${byId("contrast").value}%)`;
}

function shadeAsItIs() {
  byId("brightness").value = 100;
  byId("contrast").value = 100;
  shade();
}

const ZOOMS = { "+": ZOOM, "=": ZOOM, "-": 1 / ZOOM, 0: null, 1: "full" };

function viewerKey(event) {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || !(event.key in ZOOMS)) return;
  event.preventDefault();
  zoom(ZOOMS[event.key]);
}

/** The browser fetches and decodes the next picture while a person looks at this one. */
function prepare(i) {
  const next = i === undefined ? undefined : best(suspects[i]);
  if (next) new Image().src = next;
}

function startViewer() {
  for (const button of byId("viewer").querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(ZOOMS[button.dataset.zoom]));
  }
  for (const id of ["brightness", "contrast"]) byId(id).addEventListener("input", shade);
  byId("shade-reset").addEventListener("click", shadeAsItIs);
  byId("viewer-close").addEventListener("click", () => byId("viewer").close());
  byId("viewer").addEventListener("close", () => {
    viewer.suspect = null;
    cards.get(current())?.firstChild.focus();
  });
  byId("viewer-acts").addEventListener("click", ({ target }) => {
    const button = target.closest("[data-act]");
    if (button) ACTS[button.dataset.act]();
  });
  byId("viewer").addEventListener("keydown", viewerKey);
  byId("stage").addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM);
  });
  addEventListener("resize", () => byId("viewer").open && viewer.fitted && zoomed());
}
