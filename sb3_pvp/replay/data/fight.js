// The recording, and what follows from it for every tick.
const page = JSON.parse(byId("fight").textContent);
const fight = page.recording;
const moments = fight.moments;
const lastTick = moments.length - 1;
const names = fight.players.map((player) => player.name);
const SEATS = [0, 1];

const fighter = (tick, seat) => moments[tick].scene.fighters[seat];
const outlook = (tick, seat) => (moments[tick].outlooks || [])[seat] || null;
const decision = (tick, seat) => (moments[tick].decisions || [])[seat] || null;
const reward = (tick, seat) => (moments[tick].rewards || [])[seat] ?? null;

const hitpoints = (tick, seat) => fighter(tick, seat).hitpoints;
/** What food and brews still heal, in full health bars. */
const healing = (tick, seat) => fighter(tick, seat).food_bars + fighter(tick, seat).brew_bars;
/** Health and what heals together: what has to be broken down to win. */
function life(tick, seat) {
  const one = fighter(tick, seat);
  return one.hitpoints > 0 ? one.hitpoints / Math.max(one.max_hitpoints, 1) + healing(tick, seat) : 0;
}

const TALLIES = [
  ["damage dealt", (event, seat) => (event.kind === "damage" && event.seat === 1 - seat ? event.amount : 0)],
  ["attacks", (event, seat) => (isAttack(event) && event.seat === seat ? 1 : 0)],
  ["off prayer", (event, seat) => (isAttack(event) && event.seat === seat && !event.prayed ? 1 : 0)],
  ["special attacks", (event, seat) => (event.kind === "special" && event.seat === seat ? 1 : 0)],
  ["freezes", (event, seat) => (event.kind === "freeze" && event.seat === 1 - seat ? 1 : 0)],
  ["food eaten", (event, seat) => (event.kind === "food" && event.seat === seat ? event.amount : 0)],
  ["potion doses", (event, seat) => (event.kind === "potion" && event.seat === seat ? event.amount : 0)],
];

function isAttack(event) {
  return Boolean(event.style);
}

/** Per tally the numbers of both seats, up to this tick. */
function tallies(tick) {
  const past = page.events.filter((event) => event.tick <= tick);
  return TALLIES.map(([name, count]) => [name, ...SEATS.map((seat) => past.reduce((sum, event) => sum + count(event, seat), 0))]);
}
