// Tables that sort and filter, and forms that begin fights and send players.
"use strict";

function sortBy(button) {
  const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0], key = button.dataset.sort;
  const isDown = head.getAttribute("aria-sort") === (key === "rank" || key === "player" ? "ascending" : "descending") ? key === "rank" || key === "player" : !(key === "rank" || key === "player");
  for (const each of table.tHead.querySelectorAll("[aria-sort]")) each.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const rows = [...body.rows], sign = isDown ? -1 : 1;
  rows.sort((one, other) => {
    const [a, b] = [one.dataset[key], other.dataset[key]];
    return sign * (key === "player" ? a.localeCompare(b) : Number(a) - Number(b));
  });
  body.append(...rows);
}

function filter(form) {
  const body = document.getElementById(form.dataset.table).tBodies[0], text = form.elements.text.value.trim().toLowerCase();
  const build = form.elements.build ? form.elements.build.value : "";
  let shown = 0;
  for (const row of body.rows) {
    const builds = JSON.parse(row.dataset.builds), share = build ? builds[build] : null;
    row.hidden = !row.dataset.name.toLowerCase().includes(text) || share === undefined;
    row.querySelector(".rate").textContent = build && share !== undefined ? `${(100 * share).toFixed(1)} %` : row.querySelector(".rate").dataset.all;
    row.dataset.rate = build ? share ?? -1 : row.dataset.rate;
    shown += row.hidden ? 0 : 1;
  }
  form.querySelector("output").textContent = text || build ? `${shown} of ${body.rows.length} players` : "";
}

async function answer(response) {
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(found.error || `the server answers ${response.status}`);
  return found;
}

async function start(wish) {
  const found = await answer(await fetch("/api/live", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(wish) }));
  sessionStorage.setItem(`key ${found.id}`, found.key);
  location.href = `/live/${found.id}`;
}

const built = (form) => (form.elements.build && form.elements.build.value ? { build: form.elements.build.value } : {});

async function begin(form) {
  const { first, second, paused } = form.elements;
  await start({ first: first.value, second: second.value, paused: paused.checked, ...built(form) });
}

/** A name on the ladder is bound to this key, which only this browser has. */
function ownKey() {
  const kept = localStorage.getItem("own key");
  if (kept) return kept;
  const made = [...crypto.getRandomValues(new Uint8Array(24))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  localStorage.setItem("own key", made);
  return made;
}

async function play(form) {
  const { second, best_of: best, delay, randomness, name, consent } = form.elements;
  localStorage.setItem("own name", name.value);
  const person = { best_of: Number(best.value), delay: Number(delay.value), randomness: Number(randomness.value), consent: consent.checked };
  if (name.value.trim()) Object.assign(person, { name: name.value.trim(), key: ownKey() });
  await start({ second: second.value, person, ...built(form) });
}

async function send(form) {
  const file = form.elements.file.files[0], headers = { authorization: `Bearer ${form.elements.token.value}`, "content-type": "application/octet-stream" };
  const found = await answer(await fetch(`/api/players?name=${encodeURIComponent(file.name)}`, { method: "POST", headers, body: file }));
  return `${found.player} may enter`;
}

function onSubmit(form, act, waiting) {
  if (form === null) return;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = form.querySelector("output"), button = form.querySelector("button");
    said.textContent = waiting;
    button.disabled = true;
    try {
      said.textContent = (await act(form)) || "";
    } catch (error) {
      said.textContent = error.message;
    }
    button.disabled = false;
  });
}

// On a phone as wide as its screen, so that letters are as large as elsewhere.
const SVG = "http://www.w3.org/2000/svg", WIDE = innerWidth < 700 ? 360 : 1000, HIGH = 180, LEFT = 56, NAMES = WIDE < 1000 ? 120 : 180;

function shape(tag, options, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(options)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const text = (x, y, content, options = {}) => shape("text", { x, y, ...options }, String(content));
const box = (kind, x, y, width, height, said) => shape("rect", { class: kind, x, y, width, height }, shape("title", {}, said));
const picture = (high, said, parts) => shape("svg", { class: "chart-wide", viewBox: `0 0 ${WIDE} ${high}`, role: "img", "aria-label": said }, ...parts);

const CHARTS = {
  curve(points, name) {
    const values = points.map(([, value]) => value), low = Math.min(...values), high = Math.max(...values), last = points.length - 1;
    const spot = ([, value], number) => `${LEFT + ((WIDE - LEFT - 12) * number) / Math.max(last, 1)},${HIGH - 30 - (130 * (value - low)) / (high - low || 1)}`;
    const said = `${name}: from ${values[0]} to ${values[last]}, lowest ${low}, highest ${high}`;
    const ends = [text(8, 24, high), text(8, HIGH - 26, low), text(LEFT, HIGH - 8, points[0][0]), text(WIDE - 12, HIGH - 8, points[last][0], { "text-anchor": "end" })];
    return picture(HIGH, said, [...ends, shape("polyline", { class: "line", points: points.map(spot).join(" ") })]);
  },
  days(points) {
    const most = Math.max(...points.map(([, ...counts]) => counts[0] + counts[1] + counts[2])), wide = Math.min((WIDE - LEFT - 12) / points.length, 60), parts = [];
    points.forEach(([day, ...counts], number) => {
      let top = HIGH - 30;
      counts.forEach((count, kind) => {
        const name = ["won", "tied", "lost"][kind], high = (130 * count) / most;
        top -= high;
        if (count) parts.push(box(name, LEFT + number * wide, top, wide * 0.8, high, `${day}: ${count} ${name}`));
      });
    });
    const said = points.map(([day, won, tied, lost]) => `${day}: ${won} won, ${tied} tied, ${lost} lost`).join("; ");
    const ends = [text(LEFT, HIGH - 8, points[0][0]), text(LEFT, HIGH + 12, "won below, tied, lost above")];
    if (points.length > 1) ends.push(text(WIDE - 12, HIGH - 8, points[points.length - 1][0], { "text-anchor": "end" }));
    return picture(HIGH + 20, said, [...parts, text(8, 24, most), ...ends]);
  },
  bars(points) {
    const parts = points.flatMap(([name, share], number) => {
      const y = 8 + 30 * number, long = (WIDE - NAMES - 70) * share, said = `${(100 * share).toFixed(1)} %`;
      return [text(8, y + 16, name), box("bar", NAMES, y, long, 22, said), text(NAMES + 10 + long, y + 16, said)];
    });
    return picture(30 * points.length + 12, points.map(([name, share]) => `${name} ${(100 * share).toFixed(1)} %`).join(", "), parts);
  },
};

function drawIntervals() {
  const cells = [...document.querySelectorAll(".interval")], numbers = cells.map((cell) => [Number(cell.dataset.middle), Number(cell.dataset.half)]);
  const low = Math.min(...numbers.map(([middle, half]) => middle - half)), high = Math.max(...numbers.map(([middle, half]) => middle + half));
  const at = (value) => 4 + (142 * (value - low)) / (high - low || 1);
  cells.forEach((cell, number) => {
    const [middle, half] = numbers[number], said = `${middle.toFixed(0)}, from ${(middle - half).toFixed(0)} to ${(middle + half).toFixed(0)}`;
    const rail = shape("line", { class: "rail", x1: 4, x2: 146, y1: 8, y2: 8 }), span = shape("line", { class: "span", x1: at(middle - half), x2: at(middle + half), y1: 8, y2: 8 });
    cell.append(shape("svg", { viewBox: "0 0 150 16", role: "img", "aria-label": said }, rail, span, shape("circle", { class: "dot", cx: at(middle), cy: 8, r: 3.5 })));
  });
}

for (const figure of document.querySelectorAll("[data-kind]")) figure.append(CHARTS[figure.dataset.kind](JSON.parse(figure.dataset.points), figure.dataset.name));
drawIntervals();
for (const button of document.querySelectorAll("[data-sort]")) button.addEventListener("click", () => sortBy(button));
for (const form of document.querySelectorAll("form[data-table]")) {
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => filter(form));
}
const byId = (id) => document.getElementById(id);
onSubmit(byId("begin"), begin, "the fighters get ready…");
onSubmit(byId("upload"), send, "it fights against itself…");
onSubmit(byId("play"), play, "your opponent gets ready…");
for (const form of document.querySelectorAll("form.drill")) onSubmit(form, () => start({ person: { drill: form.elements.drill.value } }), "your opponent gets ready…");
if (byId("play")) byId("play").elements.name.value = localStorage.getItem("own name") || "";
