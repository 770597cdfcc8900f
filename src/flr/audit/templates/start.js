"use strict";

const audit = JSON.parse(document.getElementById("data").textContent);
const { classes, rows: samples } = audit;
// A suspect with what its sample looks like: name, label and picture, file, large or words.
const suspects = audit.suspects.map((suspect) => ({ ...samples[suspect.row], ...suspect }));

const suspectAt = new Map(suspects.map(({ name }, i) => [name, i]));
const classAt = new Map(classes.map((name, i) => [name, i]));

const byId = (id) => document.getElementById(id);

/** An element with attributes and children. Text goes in as text: nothing is ever read as HTML. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A button that does one thing. */
function doing(text, then, attributes = {}) {
  const button = make("button", { type: "button", ...attributes }, text);
  button.addEventListener("click", then);
  return button;
}

/** A name that can be seen, whatever it is. */
const shown = (text) => (text.trim() ? text : `“${text}” (blank)`);

/** A name kept apart from the writing direction of the words around it. */
const named = (text) => make("bdi", {}, shown(text));

const classNamed = (at) => named(classes[at]);

const whole = (number) => Math.round(number).toLocaleString("en");

/** An expected number, in words that do not claim more than it can. */
const about = (number) => (number < 0.5 ? "less than 1" : `about ${whole(number)}`);

/** A share of one in whole percent; 0 and 100 are said only where they are exact. */
function share(value) {
  if (value > 0 && value < 0.005) return "less than 1\u00a0%";
  if (value < 1 && value >= 0.995) return "more than 99\u00a0%";
  return `${Math.round(100 * value)}\u00a0%`;
}

/** A bar for the eye only: the number stands beside it. */
function gauge(value) {
  const filled = make("span");
  filled.style.width = `${100 * value}%`;
  return make("span", { class: "gauge", "aria-hidden": "true" }, filled);
}

/** Words for one and for many. */
const plural = (count, one, many) => `${whole(count)} ${count === 1 ? one : many}`;

/** Gives a file to the person; the address is taken back when the browser has surely read it. */
function download(name, text, type) {
  const link = make("a", { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
