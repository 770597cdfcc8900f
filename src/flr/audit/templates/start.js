"use strict";

const audit = JSON.parse(document.getElementById("data").textContent);
const { classes, suspects } = audit;

const byId = (id) => document.getElementById(id);

/** An element with attributes and children. Text goes in as text: nothing is ever read as HTML. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
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
