// The arena from above, and for a person who plays it the hand below: drag a card to a tile, or click both, or use keys.
const TILES_WIDE = 18, TILES_HIGH = 32, MIDDLE = 15, POCKET = [17, 18, 19, 20], HAND_Y = 33.3, CARD_WIDE = 3.55, CARD_HIGH = 3.6;
let picked = "", dragged = false, cursor = [8, 10];

const sceneOf = (tick) => moments[tick].scene;
const isTurned = () => page.person !== null && page.person !== undefined && sceneOf(lastTick).seat === 1;
const across = (x) => (isTurned() ? -x : x) + TILES_WIDE / 2, down = (y) => TILES_HIGH / 2 - (isTurned() ? -y : y);
const ownSeat = () => Math.max(sceneOf(lastTick).seat, 0);
const plays = () => scene.press !== null && current === lastTick;

scene.picture = (tick) => {
  const { units } = sceneOf(tick), hand = plays() ? sceneOf(tick).hands[ownSeat()] : null;
  const picture = shape("svg", { viewBox: `0 0 ${TILES_WIDE} ${hand ? HAND_Y + CARD_HIGH + 0.2 : TILES_HIGH}`, role: "img", class: "lanes" });
  picture.append(shape("title", {}, arenaInWords(tick)), ...lanesGround());
  if (picked && hand) picture.append(...openTiles(picked));
  for (const flies of [false, true]) picture.append(...units.filter((unit) => CARDS[unit.card].flies === flies).map(unitFigure));
  if (hand) picture.append(...handFigures(hand, sceneOf(tick).elixir[ownSeat()]));
  if (picked && hand) picture.append(shape("rect", { class: "ghost", x: cursor[0], y: TILES_HIGH - 1 - cursor[1], width: 1, height: 1 }));
  return picture;
};

function lanesGround() {
  const bridges = [-5.5, 5.5].map((x) => shape("rect", { class: "plank", x: x + TILES_WIDE / 2 - 1, y: MIDDLE, width: 2, height: 2 }));
  return [shape("rect", { class: "grass", width: TILES_WIDE, height: TILES_HIGH }), shape("rect", { class: "water", y: MIDDLE, width: TILES_WIDE, height: 2 }), ...bridges];
}

function unitFigure(unit) {
  const card = CARDS[unit.card], x = across(unit.x), y = down(unit.y), color = `#${card.colour}`;
  const name = (below) => shape("text", { class: "name", x, y: y + below }, unit.card);
  if (card.kind === "spell") {
    const blast = shape("g", {}, shape("circle", { class: "blast", cx: x, cy: y, r: card.splash, fill: color }));
    blast.append(name(0.25));
    return blast;
  }
  const figure = shape("g", { class: `unit seat${unit.seat}${unit.still ? " still" : ""}`, "data-unit": unit.card }, shape("title", {}, `${unit.card} of ${names[unit.seat]}, health ${unit.health}`));
  const r = card.radius;
  if (card.flies) figure.append(shape("ellipse", { class: "air", cx: x + 0.3, cy: y + 0.7, rx: r, ry: r * 0.6 }));
  const body = card.kind === "troop" ? shape("circle", { class: "body", cx: x, cy: y, r, fill: color }) : shape("rect", { class: "body", x: x - r, y: y - r, width: 2 * r, height: 2 * r, fill: color });
  figure.append(body);
  if (card.kind !== "tower" && card.count === 1) figure.append(name(r + 0.8)); // of a crowd, names would hide each other
  if (unit.health < card.health) {
    const bar = { x: x - r, y: y - r - 0.5, height: 0.28 };
    figure.append(shape("rect", { class: "lack", ...bar, width: 2 * r }), shape("rect", { class: "left", ...bar, width: (2 * r * unit.health) / card.health }));
  }
  return figure;
}

/** The sub-actions of a card on a tile of the own view, the card last, or null if it may not be placed there. */
function placing(card, column, row) {
  const isSpell = CARDS[card].kind === "spell", lane = column < TILES_WIDE / 2 ? "left" : "right";
  const name = isSpell || row < MIDDLE ? `row_${row}` : POCKET.includes(row) ? `${lane}_row_${row}` : "";
  return name && scene.allows(name) ? [`column_${column}`, name, card] : null;
}

function openTiles(card) {
  const tiles = [];
  for (let row = 0; row < TILES_HIGH; row++) {
    for (const first of [0, TILES_WIDE / 2]) {
      if (placing(card, first, row)) tiles.push(shape("rect", { class: "open", x: first, y: TILES_HIGH - 1 - row, width: TILES_WIDE / 2, height: 1 }));
    }
  }
  return tiles;
}

/** A card's name, squeezed where it is long. */
function cardName(card, x, y, width) {
  const tight = card.length > (width > 3 ? 8 : 5) ? { textLength: width - 0.3, lengthAdjust: "spacingAndGlyphs" } : {};
  return shape("text", { x, y, ...tight }, card);
}

function handFigures(hand, elixir) {
  const bar = shape("rect", { class: "elixir", x: 0.2, y: 32.2, width: 1.76 * elixir, height: 0.9 });
  const figures = hand.map((card, number) => {
    const isNext = number === 4, x = 0.2 + number * (CARD_WIDE + 0.2), width = isNext ? 2.6 : CARD_WIDE;
    const box = shape("g", { class: `card${card === picked && !isNext ? " picked" : ""}${isNext || elixir < CARDS[card].cost ? " dear" : ""}`, transform: `translate(${x} ${HAND_Y})` });
    if (!isNext) box.setAttribute("data-card", card);
    box.append(shape("title", {}, `${isNext ? "next: " : ""}${card}, ${CARDS[card].cost} elixir. ${CARDS[card].about}`), shape("rect", { width, height: CARD_HIGH, rx: 0.3, fill: `#${CARDS[card].colour}` }));
    if (isNext) box.append(shape("text", { x: width / 2, y: 0.75 }, "next"));
    box.append(cardName(card, width / 2, isNext ? 1.65 : 1.2, width), shape("text", { x: width / 2, y: 3.2, class: "cost" }, String(CARDS[card].cost)));
    return box;
  });
  return [bar, shape("text", { x: 9, y: 32.95 }, `${elixir.toFixed(1)} elixir`), ...figures];
}

function tileAt(event) {
  const box = byId("arena").querySelector("svg.lanes"), at = new DOMPoint(event.clientX, event.clientY).matrixTransform(box.getScreenCTM().inverse());
  const column = Math.floor(at.x), row = TILES_HIGH - 1 - Math.floor(at.y);
  return column >= 0 && column < TILES_WIDE && row >= 0 && row < TILES_HIGH ? [column, row] : null;
}

function putCard(column, row) {
  const actions = placing(picked, column, row);
  if (!actions) {
    redraw(`${picked} cannot be placed on column ${column}, row ${row}.`);
    return;
  }
  const card = picked;
  picked = "";
  // The card last: a tick may come between two presses, and a place alone does nothing, but a card alone is played.
  // What is queued already would be taken back by a second press.
  for (const action of actions) if (!queue.some((control) => control.action === action)) scene.press(action);
  redraw(scene.allows(card) ? `${card} on column ${column}, row ${row}.` : "");
}

const pick = (card) => {
  picked = card;
  redraw(`${card}: choose a tile.`);
};

document.addEventListener("pointerdown", (event) => {
  const card = event.target.closest ? event.target.closest(".lanes [data-card]") : null;
  dragged = false;
  if (!plays() || !card) return;
  event.preventDefault();
  dragged = true;
  pick(card.dataset.card);
});
document.addEventListener("pointermove", (event) => {
  if (!plays() || !picked) return;
  const tile = tileAt(event);
  if (tile && String(tile) !== String(cursor)) {
    cursor = tile;
    redraw("");
  }
});
document.addEventListener("pointerup", (event) => {
  if (!plays() || !picked) return;
  const tile = tileAt(event), isInside = byId("arena").contains(document.elementFromPoint(event.clientX, event.clientY));
  // To let a card go where it lies only picks it.
  if (tile && isInside) putCard(...tile);
  dragged = false;
});
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
document.addEventListener("keydown", (event) => {
  if (!plays() || event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "INPUT") return;
  const hand = sceneOf(lastTick).hands[ownSeat()], number = "1234".indexOf(event.key), step = ARROWS[event.key];
  if (event.key.length === 1 && number >= 0) pick(hand[number]);
  else if (picked && step) {
    cursor = [Math.min(Math.max(cursor[0] + step[0], 0), TILES_WIDE - 1), Math.min(Math.max(cursor[1] + step[1], 0), TILES_HIGH - 1)];
    redraw("");
  } else if (picked && event.key === "Enter") putCard(...cursor);
  else if (picked && event.key === "Escape") {
    picked = "";
    redraw("");
    return;
  } else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

const towersOf = (tick, seat) => sceneOf(tick).units.filter((unit) => unit.seat === seat && CARDS[unit.card].kind === "tower");
const health = (tick, seat) => towersOf(tick, seat).reduce((sum, unit) => sum + unit.health, 0);
function arenaInWords(tick) {
  const counts = SEATS.map((seat) => `${names[seat]} has ${towersOf(tick, seat).length} towers`);
  return `after ${sceneOf(tick).seconds.toFixed(1)} seconds ${counts.join(" and ")}`;
}
scene.panel = (seat) => {
  const line = element("p", { class: "hand" });
  const draw = (tick) => {
    const { hands, elixir } = sceneOf(tick), hand = hands[seat];
    line.textContent = hand ? `${elixir[seat].toFixed(1)} elixir; ${hand.slice(0, 4).join(", ")}; next ${hand[4]}` : "its hand is hidden";
  };
  return { above: [line], below: [], draw };
};
scene.charts = [["health of the towers", 2 * CARDS.guard.health + CARDS.keep.health, health, (value) => value.toFixed(0)]];
scene.mark = (event) => (event.kind === "fallen" ? { by: event.seat, length: 12, inner: 3 } : null);
scene.tallies = (tick) => [["towers", ...SEATS.map((seat) => towersOf(tick, seat).length)], ["health of the towers", ...SEATS.map((seat) => health(tick, seat))]];
scene.standing = (tick) => [arenaInWords(tick).replace(/^./, (letter) => letter.toUpperCase()), "."];
