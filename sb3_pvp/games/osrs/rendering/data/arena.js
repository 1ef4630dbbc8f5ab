// The ground seen from above (north is up), with both fighters on it.
const WIDTH = 528, HEIGHT = 216, HEADROOM = 40, MARGIN = 2, NEAR_TICKS = 6, FIGURE = 1.2;
/** Tiles across the view; the widest one is for a fighter that runs away. */
const ZOOMS = [9, 14, 22, 34];
const tileGap = (tick, axis) => Math.abs(fighter(tick, 0).tile[axis] - fighter(tick, 1).tile[axis]);
let views = findViews();

/** The width of the view in tiles and its centre, by tick. The centre moves when a fighter leaves the inner part. */
function findViews() {
  const needs = moments.map((_, tick) => Math.max(tileGap(tick, 0) + MARGIN, ((tileGap(tick, 1) + MARGIN) * WIDTH) / HEIGHT));
  let middle = [0, 1].map((axis) => (fighter(0, 0).tile[axis] + fighter(0, 1).tile[axis]) / 2);
  return moments.map((_, tick) => {
    const need = Math.max(...needs.slice(Math.max(tick - NEAR_TICKS, 0), tick + NEAR_TICKS + 1));
    const columns = ZOOMS.find((zoom) => zoom >= need) || need;
    middle = middle.map((at, axis) => {
      const both = SEATS.map((seat) => fighter(tick, seat).tile[axis]);
      const reach = Math.max((axis ? (columns * HEIGHT) / WIDTH : columns) / 6, tileGap(tick, axis) / 2);
      return Math.min(Math.max(at, Math.max(...both) - reach), Math.min(...both) + reach);
    });
    return { columns, middle };
  });
}

/** The view of a tick; a live fight has more of them than at its start. */
function viewAt(tick) {
  if (views.length < moments.length) views = findViews();
  return views[tick];
}

/** Tiles east and north of the opponent at a point of the picture. */
scene.offsetAt = (tick, x, y) => {
  const { columns, middle } = viewAt(tick), size = WIDTH / columns, foe = fighter(tick, 1).tile;
  return [Math.round(middle[0] + (x - WIDTH / 2) / size - foe[0]), Math.round(middle[1] - (y - HEADROOM - HEIGHT / 2) / size - foe[1])];
};

scene.picture = (tick) => {
  const { columns, middle } = viewAt(tick), size = WIDTH / columns;
  const toX = (x) => WIDTH / 2 + (x - middle[0]) * size, toY = (y) => HEADROOM + HEIGHT / 2 - (y - middle[1]) * size;
  const place = SEATS.map((seat) => fighter(tick, seat).tile).map(([x, y]) => [toX(x), toY(y)]);
  spread(place);
  const picture = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEADROOM + HEIGHT - 20}`, role: "img" });
  picture.append(shape("title", {}, arenaInWords(tick)), ...ground(middle, size, toX, toY));
  const order = [...SEATS].sort((one, other) => place[one][1] - place[other][1]);
  order.forEach((seat) => picture.append(figure(tick, seat, place[seat], place[1 - seat])));
  SEATS.forEach((seat) => picture.append(...projectiles(tick, seat, place)));
  const words = wordsBelow(place);
  SEATS.forEach((seat) => picture.append(...labels(tick, seat, place[seat], words[seat])));
  return picture;
};

/** Moves fighters apart that would hide each other. */
function spread(place) {
  const [across, up] = [0, 1].map((axis) => Math.abs(place[0][axis] - place[1][axis]));
  if (across > 44 || up > 90) return;
  const left = place[0][0] <= place[1][0] ? 0 : 1, push = (48 - across) / 2;
  place[left][0] -= push;
  place[1 - left][0] += push;
}

/** How far below the fighters their attacks are written: on different lines if they are side by side. */
function wordsBelow(place) {
  const [across, down] = [0, 1].map((axis) => place[1][axis] - place[0][axis]);
  const lower = down > 0 ? 1 : 0, isTight = Math.abs(across) < 110 && Math.abs(down) < 14;
  return SEATS.map((seat) => (isTight && seat === lower ? 28 - Math.abs(down) : 15));
}

function arenaInWords(tick) {
  const { distance } = moments[tick].scene;
  const where = distance ? `${distance} ${distance === 1 ? "tile" : "tiles"} apart` : "on the same tile";
  return `${names[0]} and ${names[1]} stand ${where}`;
}

function ground(middle, size, toX, toY) {
  const tiles = [], [west, south] = [middle[0] - WIDTH / size / 2, middle[1] - (HEIGHT + 2 * HEADROOM) / size / 2].map(Math.floor);
  for (let x = west; x <= west + WIDTH / size + 2; x++) {
    for (let y = south; y <= south + (HEIGHT + 3 * HEADROOM) / size + 2; y++) {
      const corner = { x: toX(x - 0.5), y: toY(y + 0.5), width: size + 0.5, height: size + 0.5 };
      tiles.push(shape("rect", { ...corner, fill: `var(--ground${(x + y) & 1 ? "2" : ""})` }));
    }
  }
  return tiles;
}

const GLYPHS = {
  melee: "M-7 7L5 -5L7 -8L4 -6L-8 6ZM-8 2L-2 8",
  ranged: "M-6 -8Q8 0 -6 8M-6 -8L-6 8M-8 0L8 0M4 -3L8 0L4 3",
  magic: "M0 -8L2 -2L8 0L2 2L0 8L-2 2L-8 0L-2 -2Z",
  smite: "M-5 -8L5 -8L1 -1L6 -1L-4 9L-1 2L-6 2Z",
  redemption: "M0 7C-12 -2 -5 -10 0 -4C5 -10 12 -2 0 7Z",
};

function glyph(kind, x, y, scale = 1) {
  const color = `var(--${["melee", "ranged", "magic"].includes(kind) ? kind : "text"})`;
  const isLine = kind === "ranged";
  const paint = { fill: isLine ? "none" : color, stroke: color, "stroke-width": 1.6, "stroke-linejoin": "round" };
  return shape("path", { d: GLYPHS[kind], transform: `translate(${x} ${y}) scale(${scale})`, ...paint });
}

/** A fighter on its tile, facing its foe. */
function figure(tick, seat, [x, y], foe) {
  const one = fighter(tick, seat), side = foe[0] < x || (foe[0] === x && seat) ? -1 : 1;
  const body = shape("g", { transform: `translate(${x} ${y}) scale(${FIGURE})` });
  const color = { fill: `var(--seat${seat})`, stroke: "var(--card)", "stroke-width": 1.2 };
  body.append(shape("ellipse", { cx: 0, cy: 0, rx: 15, ry: 5, fill: "#0004" }));
  if (isDead(tick, seat)) {
    body.append(shape("path", { d: "M-16 -3Q0 -12 14 -4L16 1L-16 1Z", ...color }), shape("circle", { cx: 20, cy: -3, r: 6, ...color }));
    return body;
  }
  body.append(shape("path", { d: "M-7 0L-9 -14Q-10 -24 0 -24Q10 -24 9 -14L7 0L2 0L0 -8L-2 0Z", ...color }));
  body.append(shape("circle", { cx: 0, cy: -31, r: 7, ...color }));
  if (GLYPHS[one.style]) body.append(glyph(one.style, 16 * side, -17, 1));
  if (one.vengeance) body.append(shape("ellipse", { cx: 0, cy: -17, rx: 15, ry: 23, fill: "none", stroke: "#a050d0", "stroke-width": 2, "stroke-dasharray": "4 3" }));
  if (one.frozen_ticks > 0) {
    body.append(shape("path", { d: "M-15 2L-17 -9L-10 -14L-4 -9L2 -15L9 -10L16 -12L15 2Z", fill: "var(--ice)", opacity: 0.8 }));
    body.append(caption(one.frozen_ticks, 0, 1, 11, "#06202e"));
  }
  return body;
}

function caption(text, x, y, size = 12, color = "var(--text)") {
  const node = shape("text", { x, y, "text-anchor": "middle" }, String(text));
  node.style.fontSize = `${size}px`;
  node.style.fill = color;
  return node;
}

/** Projectiles towards this fighter, and its own melee attack in this tick. */
function projectiles(tick, seat, place) {
  const one = fighter(tick, seat), from = place[1 - seat], to = place[seat], flying = [];
  for (const hit of (one.incoming || []).filter((each) => each.style !== "melee")) {
    const done = 1 / (hit.ticks + 1), x = from[0] + (to[0] - from[0]) * done, y = from[1] + (to[1] - from[1]) * done - 20;
    const color = `var(--${hit.style})`;
    flying.push(shape("line", { x1: from[0], y1: from[1] - 20, x2: x, y2: y, stroke: color, "stroke-width": 2, "stroke-dasharray": "2 4" }));
    flying.push(shape("circle", { cx: x, cy: y, r: 6, fill: color, stroke: "var(--card)", "stroke-width": 1.5 }));
  }
  if (one.attack && one.attack.style === "melee") {
    const [x, y] = place[1 - seat];
    flying.push(shape("path", { d: `M${x - 14} ${y - 32}Q${x + 14} ${y - 26} ${x + 12} ${y - 4}`, fill: "none", stroke: "var(--melee)", "stroke-width": 3 }));
  }
  return flying;
}

/** Prayer and health above a fighter, the damage of this tick on it, and its attack below. */
function labels(tick, seat, [x, y], below) {
  const one = fighter(tick, seat), parts = [], share = Math.min(one.hitpoints / Math.max(one.max_hitpoints, 1), 1);
  if (!isUnhurt(tick, seat)) {
    parts.push(shape("rect", { x: x - 18, y: y - 55, width: 36, height: 5, rx: 2, fill: "var(--bad)" }));
    parts.push(shape("rect", { x: x - 18, y: y - 55, width: 36 * share, height: 5, rx: 2, fill: "var(--good)" }));
  }
  if (GLYPHS[one.overhead]) {
    parts.push(shape("circle", { cx: x, cy: y - 68, r: 10.5, fill: "var(--card)", stroke: "var(--line)" }), glyph(one.overhead, x, y - 68, 0.8));
  }
  (one.hitsplats || []).forEach((damage, index, all) => {
    const at = x + (index - (all.length - 1) / 2) * 23;
    parts.push(shape("path", { d: `M${at - 11} ${y - 18}l4 -5l3 -6l4 4l6 -2l1 6l5 4l-4 5l0 6l-6 0l-5 4l-3 -5l-6 -1z`, fill: `var(--${damage ? "splat" : "zero"})` }));
    parts.push(caption(damage, at + 1, y - 12, 12, "#fff"));
  });
  if (one.attack) {
    const unknown = one.attack.damage === null || one.attack.damage === undefined, prayed = one.attack.prayed ? " (prayed)" : "";
    const said = unknown ? `attacks${prayed}` : one.attack.damage ? `hits ${one.attack.damage}${prayed}` : "misses";
    const words = caption(said, x, y + below, 12, `var(--${one.attack.style})`);
    words.classList.add("said");
    parts.push(words);
  }
  return parts;
}
