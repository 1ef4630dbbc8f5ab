// The recording, and the interface that the game's own script implements.
const page = JSON.parse(byId("fight").textContent);
const fight = page.recording;
const moments = fight.moments;
let lastTick = moments.length - 1; // a live fight goes on
const names = fight.players.map((player) => player.name);
const SEATS = [0, 1];

const outlook = (tick, seat) => (moments[tick].outlooks || [])[seat] || null;
const decision = (tick, seat) => (moments[tick].decisions || [])[seat] || null;
const reward = (tick, seat) => (moments[tick].rewards || [])[seat] ?? null;

const called = (seat) => element("b", { class: `seat${seat}` }, names[seat]);

/** Defaults of the game's view. The game's script, which follows, overwrites those that it supports. */
const scene = {
  /** An element, or text, that shows the tick. */
  picture: (tick) => "",
  /** For a fight that a human plays: how far from the opponent a point of the picture is, as east and north; null: nowhere. */
  offsetAt: null,
  /** What a choice is called, by its positions; "none" for one that does nothing. */
  label: (tick, seat, head, choice) => page.labels[head][choice],
  /** Elements above and below a fighter's choices, and a function that updates them. */
  panel: (seat) => ({ above: [], below: [], draw: (tick) => {} }),
  /** Charts over the whole fight: `[name, height, read(tick, seat), inText(value)]`. */
  charts: [],
  /** The mark of an event: `{ by, length, inner }` with the acting seat, the length and the distance from the line; null: none. */
  mark: (event) => null,
  /** Which fighter is ahead, and why: parts of a sentence, text or elements. */
  standing: (tick) => [],
  reasons: (tick, seat) => [],
  /** Counts of both fighters so far: `[name, first, second]`. */
  tallies: (tick) => [],
};
/** Of a fight that a human plays, for the game's script: presses the control of a sub-action, and says whether it is possible. */
scene.press = scene.allows = null;
