
// corrections.csv: every field in quotes, every value exactly as it is in the data, but for a
// quote mark before what a spreadsheet would take for a formula (the same as core/plain_text.py).

const COLUMNS = ["name", "given", "decision", "label", "audit"];

const FORMULA = /^'*[=+\-@\t\r]/;
const NUMBER = /^[+-][0-9.]+(e[+-]?[0-9]+)?$/i;

const toCell = (value) => (FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value);
const fromCell = (cell) => (cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell);

const quoted = (value) => `"${toCell(value).replaceAll('"', '""')}"`;

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

function corrections() {
  const rows = [...decisions].sort(([a], [b]) => a - b).map(([i, { what, to }]) => {
    const { name, given } = suspects[i];
    return [name, classes[given], what, what === "accept" ? classes[to] : "", audit.key];
  });
  return toCsv([COLUMNS, ...rows]);
}

/** The decisions of a file as changes, or an error that says which row does not belong here. */
function readCorrections(text) {
  const [header = [], ...rows] = fromCsv(text.replace(/^\uFEFF/, ""));
  const missing = COLUMNS.filter((column) => !header.includes(column));
  if (missing.length) {
    throw new Error(
      `Expected the columns ${COLUMNS.join(", ")}; there is no ${missing.join(", ")}. ` +
        "Choose a corrections.csv that this page saved.",
    );
  }
  const suspectAt = new Map(suspects.map(({ name }, i) => [name, i]));
  const classAt = new Map(classes.map((name, i) => [name, i]));
  return rows.map((fields, number) => {
    const row = Object.fromEntries(header.map((column, i) => [column, fromCell(fields[i] ?? "")]));
    try {
      return readRow(row, suspectAt, classAt);
    } catch (error) {
      throw new Error(`Row ${number + 2}: ${error.message} Nothing was loaded.`);
    }
  });
}

function readRow(row, suspectAt, classAt) {
  if (row.audit !== audit.key) {
    const whose = row.audit ? `audit ${row.audit}` : "no audit";
    throw new Error(`it belongs to ${whose}; this page is audit ${audit.key}. Load it into the page that saved it.`);
  }
  const at = suspectAt.get(row.name);
  if (at === undefined) throw new Error(`“${row.name}” is not among the suspects of this page.`);
  const given = classes[suspects[at].given];
  if (row.given !== given) {
    throw new Error(`“${row.name}” has the label “${given}” here and “${row.given}” in the file.`);
  }
  if (!Object.hasOwn(WORDS, row.decision)) {
    throw new Error(`expected accept, keep or skip as the decision; got “${row.decision}”.`);
  }
  if (row.decision !== "accept") return [at, { what: row.decision }];
  if (!classAt.has(row.label)) throw new Error(`“${row.label}” is not a class of this audit.`);
  return [at, { what: "accept", to: classAt.get(row.label) }];
}
