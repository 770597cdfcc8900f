
// Label Studio: tasks with `data`, our suggestion under `predictions` and what was decided under
// `annotations`, for <Choices name="choice">. Its exports are read as JSON, JSON-MIN and CSV.

const STUDIO_MARKS = ["annotation_id", "was_cancelled"]; // columns that tell its tables from others
const STUDIO_CHOICES = ["choice", "choices", "label", "sentiment"];

function studioData(i) {
  const { name, given, suggested, probability, words } = suspects[i];
  const about = { name, given: classes[given], suggested: classes[suggested], probability, audit: audit.key };
  if (Array.isArray(words)) return { table: Object.fromEntries(words), ...about };
  if (audit.kind === "text" || words) return { text: words, ...about };
  return { image: `/data/local-files/?d=${encodeURIComponent(name).replaceAll("%2F", "/")}`, ...about };
}

/** What Label Studio calls the object that a choice is about. */
const studioObject = (data) => Object.keys(data)[0];

function studioTask(i) {
  const data = studioData(i);
  const { suggested, confidence } = suspects[i];
  const chosen = (label) => [
    { from_name: "choice", to_name: studioObject(data), type: "choices", value: { choices: [label] } },
  ];
  const task = { id: i + 1, data, annotations: [] };
  task.predictions = [{ model_version: "flr", score: confidence, result: chosen(classes[suggested]) }];
  const label = studioChoice(i);
  if (label !== undefined) {
    task.annotations = [{ was_cancelled: label === null, result: label === null ? [] : chosen(label) }];
  }
  return task;
}

/** The label that a person chose; null for skipped, undefined for undecided. */
function studioChoice(i) {
  const decision = decisions.get(i);
  if (!decision) return undefined;
  if (decision.what === "skip") return null;
  return classes[decision.what === "keep" ? suspects[i].given : decision.to];
}

const studioJson = () => JSON.stringify([...suspects.keys()].map(studioTask), null, 1);

function studioCsv() {
  const rows = [...suspects.keys()].map((i) => {
    const [object, ...about] = Object.values(studioData(i));
    const label = studioChoice(i);
    return [i + 1, typeof object === "string" ? object : JSON.stringify(object), ...about, label ?? "", label === null];
  });
  const names = suspects.length ? Object.keys(studioData(0)) : ["image"];
  return toCsv([["id", ...names, "choice", "was_cancelled"], ...rows]);
}

/** Tasks with annotations, or JSON-MIN, where a task is flat and has its choice beside its data. */
function fromStudioJson(text) {
  let tasks;
  try {
    tasks = [JSON.parse(text.replace(/^\uFEFF/, ""))].flat();
  } catch (error) {
    throw new Error(`Expected a JSON file of Label Studio; ${error.message}. Export it once more.`);
  }
  if (!tasks.every((task) => task && typeof task === "object")) {
    const advice = "Choose JSON or JSON-MIN there.";
    throw new Error(`Expected a list of tasks, as Label Studio exports it; got something else. ${advice}`);
  }
  return tasks.map(checkTask).filter(Boolean);
}

function checkTask(task, number) {
  try {
    return fromStudioTask(task);
  } catch {
    const odd = "its data, annotations or choices are of another kind";
    throw new Error(`Task ${number + 1}: expected one as Label Studio exports it; ${odd}. Export the file once more.`);
  }
}

function fromStudioTask(task) {
  if (!task.data) return fromStudioRow(task);
  const [last] = (task.annotations ?? task.completions ?? []).slice(-1);
  if (!last) return null;
  const found = (last.result ?? []).find(({ type }) => type === "choices");
  const choice = found ? String(found.value.choices[0]) : "";
  return fromStudioRow({ ...task.data, choice, was_cancelled: last.was_cancelled });
}

/** A flat row as a decision: the choice is the right label, so another one than given is accepted.
 * Nothing where nothing was chosen and the task was not skipped either. */
function fromStudioRow(row) {
  const name = studioName(row);
  const i = suspectAt.get(name);
  const given = row.given ?? (i === undefined ? "" : classes[suspects[i].given]);
  const found = STUDIO_CHOICES.map((column) => row[column]).find((value) => value !== undefined);
  const label = String(found?.choices?.[0] ?? found ?? "");
  const skipped = String(row.was_cancelled).toLowerCase() === "true";
  if (!label && !skipped) return null;
  const what = skipped ? "skip" : label === given ? "keep" : "accept";
  return { name, given, what, label: what === "accept" ? label : "", audit: row.audit ?? "" };
}

/** The sample's name, or the one that the picture's address ends with: folders may have been put
 * before it, and Label Studio puts eight signs before the name of an uploaded file. */
function studioName(row) {
  if (row.name !== undefined) return String(row.name);
  const address = String(row.image ?? row.text ?? "");
  const parts = decoded(address.split("?d=").at(-1)).split("/");
  const last = parts.pop().replace(/^[0-9a-f]{8}-/, "");
  for (let from = 0; from <= parts.length; from += 1) {
    const name = [...parts.slice(from), last].join("/");
    if (suspectAt.has(name)) return name;
  }
  return address;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a per cent sign that belongs to the name
  }
}
