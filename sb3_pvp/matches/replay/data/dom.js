// Helpers for elements. They insert text as text only, so that no name in a recording can become markup.
"use strict";

window.addEventListener("error", (event) => noteError(event.message));
document.addEventListener("securitypolicyviolation", (event) => noteError(`${event.violatedDirective}: ${event.blockedURI}`));
window.addEventListener("unhandledrejection", (event) => noteError(String(event.reason)));

function noteError(message) {
  const root = document.documentElement;
  root.dataset.errors = String(Number(root.dataset.errors) + 1);
  root.dataset.error = message;
}

const byId = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  return fill(document.createElement(tag), options, children);
}

function shape(tag, options = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), options, children);
}

function fill(node, options, children) {
  for (const [name, value] of Object.entries(options)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const percent = (share) => `${Math.round(100 * share)}%`;
const rounded = (value) => value.toFixed(2).replace(/^-(?=[0.]+$)/, ""); // nobody writes -0.00
const inWords = (id) => id.replaceAll("_", " ");
