// Charts of both fighters over the whole fight, and marks for events.
let charts = makeCharts();

function makeCharts() {
  byId("charts").replaceChildren();
  return [...scene.charts.map((chart) => makeChart(...chart)), makeOutlookChart()].filter(Boolean);
}

function makeOutlookChart() {
  const views = moments.flatMap((_, tick) => SEATS.map((seat) => outlook(tick, seat))).filter(Boolean);
  if (!views.length) return null;
  if (views.some((view) => view.win_probability ?? null)) {
    return makeChart("probability of winning, as each model predicts it", 40, (tick, seat) => outlook(tick, seat)?.win_probability ?? null, percent, [0, 1]);
  }
  const values = views.map((view) => view.value);
  const range = [Math.min(0, ...values), Math.max(0, ...values)];
  return makeChart("each critic's value", 40, (tick, seat) => outlook(tick, seat)?.value ?? null, rounded, range);
}

/** `read(tick, seat)` returns a number, or null if there is none. */
function makeChart(name, height, read, inText, range = null) {
  const table = SEATS.map((seat) => moments.map((_, tick) => read(tick, seat)));
  const known = table.flat().filter((value) => value !== null);
  const [low, high] = range || [0, Math.max(...known, 1)];
  const toY = (value) => 98 - (96 * (value - low)) / (high - low || 1);
  const picture = shape("svg", { viewBox: `0 0 ${Math.max(lastTick, 1)} 100`, preserveAspectRatio: "none", height, role: "img", "aria-label": `${name} over time` });
  if (low < 0) picture.append(shape("line", { class: "zero", x1: 0, x2: lastTick, y1: toY(0), y2: toY(0) }));
  SEATS.forEach((seat) => picture.append(shape("path", { class: `lead seat${seat}`, d: leadPath(table, seat, toY) })));
  SEATS.forEach((seat) => picture.append(shape("path", { class: `curve seat${seat}`, d: curvePath(table[seat], toY) })));
  const cursor = shape("line", { class: "cursor", y1: 0, y2: 100 }), now = element("span", { class: "now" });
  picture.append(cursor);
  seekOnClick(picture);
  byId("charts").append(element("div", { class: "chart" }, picture, element("span", { class: "name" }, name), now));
  return { cursor, now, table, inText };
}

function curvePath(values, toY) {
  let path = "", isDown = false;
  values.forEach((value, tick) => {
    if (value !== null) path += `${isDown ? "L" : "M"}${tick} ${toY(value).toFixed(2)}`;
    isDown = value !== null;
  });
  return path;
}

/** The area between both curves where this seat is ahead. */
function leadPath(table, seat, toY) {
  let path = "";
  for (let tick = 0; tick < lastTick; tick++) {
    const [own, foe] = [table[seat], table[1 - seat]].map((values) => [values[tick], values[tick + 1]]);
    if ([...own, ...foe].includes(null) || own[0] + own[1] <= foe[0] + foe[1]) continue;
    const [a, b, c, d] = [own[0], own[1], foe[1], foe[0]].map((value) => toY(value).toFixed(2));
    path += `M${tick} ${a}L${tick + 1} ${b}L${tick + 1} ${c}L${tick} ${d}Z`;
  }
  return path;
}

function drawCharts(tick) {
  for (const chart of charts) {
    chart.cursor.setAttribute("x1", tick);
    chart.cursor.setAttribute("x2", tick);
    const numbers = SEATS.map((seat) => [seat, chart.table[seat][tick]]).filter(([, value]) => value !== null);
    chart.now.replaceChildren(...numbers.map(([seat, value]) => element("span", { class: `seat${seat}` }, ` ${chart.inText(value)} `)));
  }
  marksCursor.setAttribute("x1", tick);
  marksCursor.setAttribute("x2", tick);
}

/** Above the line is what the first fighter does to the second, below it the reverse. */
function drawMarks() {
  const picture = byId("marks"), cursor = shape("line", { class: "cursor", y1: 0, y2: 32 });
  picture.replaceChildren();
  picture.setAttribute("viewBox", `0 0 ${Math.max(lastTick, 1)} 32`);
  picture.append(shape("line", { class: "zero", x1: 0, x2: lastTick, y1: 16, y2: 16 }));
  for (const event of page.events) {
    const mark = scene.mark(event);
    if (mark === null) continue;
    const sign = mark.by === 0 ? -1 : 1;
    const line = { x1: event.tick, x2: event.tick, y1: 16 + sign * mark.inner, y2: 16 + sign * (mark.inner + mark.length) };
    const title = shape("title", {}, `tick ${event.tick}: ${names[event.seat]} ${event.text}`);
    picture.append(shape("line", { class: `mark seat${mark.by} ${event.kind}`, ...line }, title));
  }
  picture.append(cursor);
  return cursor;
}

function seekOnClick(picture) {
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    goTo(Math.round((lastTick * (event.clientX - box.left)) / box.width));
  });
}

let marksCursor = drawMarks();
seekOnClick(byId("marks"));
