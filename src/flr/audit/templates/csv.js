
// corrections.csv: every field in quotes, every value exactly as it is in the data, but for a
// quote mark before what a spreadsheet would take for a formula (the same as core/plain_text.py).

const COLUMNS = ["name", "given", "decision", "label", "audit"];

const FORMULA = /^'*[=+\-@\t\r]/;
const NUMBER = /^[+-][0-9.]+(e[+-]?[0-9]+)?$/i;

const toCell = (value) => (FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value);
const fromCell = (cell) => (cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell);

const quoted = (value) => `"${toCell(String(value)).replaceAll('"', '""')}"`;

const toCsv = (rows) => rows.map((row) => row.map(quoted).join(",") + "\r\n").join("");

/** Rows of fields. Throws where a quote is not closed or stands in the middle of a plain field. */
function fromCsv(text) {
  const field = /(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r\n|\n|\r|$)/gy;
  const rows = [[]];
  for (;;) {
    const found = field.exec(text);
    if (!found) throw new Error(`Row ${rows.length} has a quote in an unexpected place.`);
    rows.at(-1).push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    if (found[3] === "") return rows.filter((row) => row.length > 1 || row[0] !== "");
    if (found[3] !== ",") rows.push([]);
  }
}

/** The rows of a table as objects, by the names in its header. */
function tableRows(text) {
  const [header = [], ...rows] = fromCsv(text.replace(/^\uFEFF/, ""));
  const names = header.map((name) => name.trim());
  const named = (fields) => Object.fromEntries(names.map((column, i) => [column, fromCell(fields[i] ?? "")]));
  return { header: names, rows: rows.map(named) };
}

function corrections() {
  const rows = [...decisions].sort(([a], [b]) => a - b).map(([i, { what, to }]) => {
    const { name, given } = suspects[i];
    return [name, classes[given], what, what === "accept" ? classes[to] : "", audit.key];
  });
  return toCsv([COLUMNS, ...rows]);
}

/**
 * The decisions of somebody's file, each { i, given, what, label, audit } for a suspect of this
 * page, and what was left out, in numbers by reason. A file of this very audit has to fit row for
 * row; of another one, or of another program, what fits by name and label is taken.
 */
function readDecisions(text) {
  if (/^\uFEFF?\s*[[{]/.test(text)) return sift(fromStudioJson(text));
  const { header, rows } = tableRows(text);
  if (COLUMNS.every((column) => header.includes(column))) return sift(rows.map(checkRow));
  if (STUDIO_MARKS.some((column) => header.includes(column))) return sift(rows.map(fromStudioRow).filter(Boolean));
  const missing = COLUMNS.filter((column) => !header.includes(column));
  throw new Error(
    `Expected the columns ${COLUMNS.join(", ")}; there is no ${missing.join(", ")}. ` +
      "Choose a corrections.csv that such a page saved, or a file of Label Studio.",
  );
}

function checkRow(row, number) {
  const { name, given, decision: what, label } = row;
  const wrong = (words) => new Error(`Row ${number + 2}: ${words} Nothing was loaded.`);
  if (!Object.hasOwn(WORDS, what)) throw wrong(`expected accept, keep or skip as the decision; got “${what}”.`);
  if (row.audit === audit.key) {
    const i = suspectAt.get(name);
    if (i === undefined) throw wrong(`“${name}” is not among the suspects of this page.`);
    const here = classes[suspects[i].given];
    if (given !== here) throw wrong(`“${name}” has the label “${here}” here and “${given}” in the file.`);
    if (what === "accept" && !classAt.has(label)) throw wrong(`“${label}” is not a class of this audit.`);
  }
  return { name, given, what, label, audit: row.audit };
}

/** Parts what fits this audit from what does not. */
function sift(rows) {
  const left = { absent: 0, changed: 0, unknown: 0, skipped: 0 };
  const changes = new Map();
  for (const row of rows) {
    const i = suspectAt.get(row.name);
    const decision = i === undefined ? "absent" : applied(row, i);
    if (typeof decision === "string") left[decision] += 1;
    else changes.set(i, decision);
  }
  const earlier = rows.some((row) => row.audit !== audit.key);
  return { changes: [...changes], left, earlier };
}

/** The words for what a file has and this audit cannot use. */
function leftOut({ absent, changed, unknown, skipped }) {
  const parts = [
    absent && `${whole(absent)} of samples that are no suspects here`,
    changed && `${whole(changed)} whose label is another one now`,
    unknown && `${whole(unknown)} with a class that this audit does not have`,
    skipped && `${whole(skipped)} that were skipped`,
  ].filter(Boolean);
  return parts.length ? ` Not taken: ${parts.join(", ")}.` : "";
}
