// What a world model expects of the next ticks (dashed), beside what came.
const FUTURE_WIDTH = 10;
const futures = [null, null]; // made when there is one: a live fight begins without

function makeFuture(seat) {
  const box = element("div", { class: "future" });
  byId(`fighter${seat}`).append(element("h3", {}, "the next ten ticks: expected (dashed), and what came"), box);
  return box;
}

/** The rows of a tick: `[name, expected, came]`; the first number of both is that of now, if it is known. */
function futureRows(tick, seat) {
  const view = outlook(tick, seat)?.future;
  if (!view) return [];
  const ahead = view.rewards.map((_, step) => tick + 1 + step).filter((later) => later <= lastTick);
  const seen = (name) => [tick, ...ahead].map((later) => outlook(later, seat)?.future?.seen?.[name]?.[0] ?? null);
  const features = Object.entries(view.seen || {}).map(([name, expected]) => [inWords(name), expected, seen(name)]);
  const rewards = [null, ...ahead.map((later) => reward(later, seat))];
  const isOn = [1, ...view.rewards.map((_, step) => (tick + 1 + step < lastTick ? 1 : 0))];
  return [["reward", [null, ...view.rewards], rewards], ["still on", [1, ...view.goes_on], isOn], ...features];
}

function drawFuture(tick, seat) {
  const found = futureRows(tick, seat);
  if (!found.length && !futures[seat]) return;
  futures[seat] ??= makeFuture(seat);
  const rows = found.map(([name, expected, came]) => {
    const known = [...expected, ...came].filter((value) => value !== null);
    const [low, high] = name === "still on" ? [0, 1] : [Math.min(...known), Math.max(...known)];
    const toY = (value) => (high > low ? 22 - (20 * (value - low)) / (high - low) : 12);
    const about = `${name}: expected ${known.length ? rounded(expected.at(-1)) : ""} in ten ticks`;
    const picture = shape("svg", { viewBox: `0 0 ${FUTURE_WIDTH} 24`, preserveAspectRatio: "none", height: 24, role: "img", "aria-label": about });
    picture.append(shape("path", { class: `curve came seat${seat}`, d: curvePath(came, toY) }));
    picture.append(shape("path", { class: `curve expected seat${seat}`, d: curvePath(expected, toY) }));
    const now = came.at(-1) ?? null;
    const numbers = `${rounded(expected.at(-1))} / ${now === null ? "–" : rounded(now)}`;
    return element("div", { class: "expectation" }, element("span", {}, name), picture, element("span", { class: "share" }, numbers));
  });
  futures[seat].replaceChildren(...rows);
}
