// Which fighter is winning and why, in terms of this game.
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

/** By tally the numbers of both seats up to this tick. */
function tallies(tick) {
  const past = page.events.filter((event) => event.tick <= tick);
  return TALLIES.map(([name, count]) => [name, ...SEATS.map((seat) => past.reduce((sum, event) => sum + count(event, seat), 0))]);
}

/** What both are known to have done: nobody sees what the opponent eats and drinks. */
scene.tallies = (tick) => tallies(tick).filter(([name]) =>
  isSeen() ? !["food eaten", "potion doses", "off prayer"].includes(name) : name !== "off prayer" || fighter(0, 0).overhead !== null);

scene.standing = (tick) => {
  if (isSeen()) return [];
  const lives = SEATS.map((seat) => life(tick, seat)), lead = lives[0] - lives[1];
  if (Math.abs(lead) < 0.1) return [`Neither is ahead: health, food and brews are level. Prayer points left ${SEATS.map((seat) => fighter(tick, seat).prayer).join(" to ")}.`];
  const seat = lead > 0 ? 0 : 1, other = 1 - seat;
  const have = (one) => `${hitpoints(tick, one)} HP and ${healing(tick, one).toFixed(1)} bars of food and brews`;
  return [called(seat), ` is ahead: ${have(seat)}, against ${hitpoints(tick, other)} and ${healing(tick, other).toFixed(1)}. `, ...scene.reasons(tick, seat)];
};

scene.reasons = (tick, seat) => {
  const found = Object.fromEntries(tallies(tick).map(([name, ...both]) => [name, [both[seat], both[1 - seat]]]));
  const [dealt, taken] = found["damage dealt"];
  const damage = dealt >= taken ? `Damage dealt ${dealt} to ${taken}` : `Damage dealt only ${dealt} to ${taken}`;
  const [own, foe] = [0, 1].map((side) => found["off prayer"][side] / Math.max(found.attacks[side], 1));
  const usesPrayer = fighter(tick, 0).overhead !== null && found.attacks[0] && found.attacks[1];
  return [usesPrayer ? `${damage}; attacks off prayer ${own < foe ? "only " : ""}${percent(own)} to ${percent(foe)}.` : `${damage}.`];
};

scene.mark = (event) => {
  const length = { damage: 2 + Math.min(event.amount / 4, 13), special: 5, freeze: 4, death: 15 }[event.kind];
  if (length === undefined) return null;
  const isSuffered = ["damage", "freeze", "death"].includes(event.kind), inner = ["special", "freeze"].includes(event.kind) ? 11 : 0;
  return { by: isSuffered ? 1 - event.seat : event.seat, length, inner };
};
byId("marks").setAttribute("aria-label", "Hits, special attacks, freezes and deaths over time");
byId("key").append(...["special", "freeze"].flatMap((kind) => [element("i", { class: kind }), kind]));
