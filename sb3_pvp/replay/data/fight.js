// The recording, and what the game says of it.
const page = JSON.parse(byId("fight").textContent);
const fight = page.recording;
const moments = fight.moments;
const lastTick = moments.length - 1;
const names = fight.players.map((player) => player.name);
const SEATS = [0, 1];

const outlook = (tick, seat) => (moments[tick].outlooks || [])[seat] || null;
const decision = (tick, seat) => (moments[tick].decisions || [])[seat] || null;
const reward = (tick, seat) => (moments[tick].rewards || [])[seat] ?? null;

const called = (seat) => element("b", { class: `seat${seat}` }, names[seat]);

/** What only the game's own script knows. That script follows, and overwrites what it can say. */
const scene = {
  /** What the moment looks like. */
  picture: (tick) => "",
  /** Elements above and below a fighter's choices, and what brings them up to date. */
  panel: (seat) => ({ above: [], below: [], draw: (tick) => {} }),
  /** Curves over the whole fight: `[name, height, read(tick, seat), inText(value)]`. */
  charts: [],
  /** Of an event who did it, how long its mark is and how far from the line it begins: `{ by, length, inner }`; null: no mark. */
  mark: (event) => null,
  /** Who is ahead; and in what this seat was better so far. */
  standing: (tick) => [],
  reasons: (tick, seat) => [],
  /** What both did so far: `[name, first, second]`. */
  tallies: (tick) => [],
};
