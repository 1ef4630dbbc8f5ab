// The fighters of every tick.
const fighter = (tick, seat) => moments[tick].scene.fighters[seat];
const hitpoints = (tick, seat) => fighter(tick, seat).hitpoints;
/** Whether a player sees the opponent here, whose supplies, levels and prayer points are then unknown. */
const isSeen = () => moments.length > 0 && SEATS.some((seat) => fighter(0, seat).hidden);
/** Hitpoints that nobody has seen yet are 0. */
const isUnhurt = (tick, seat) => fighter(tick, seat).hidden && hitpoints(tick, seat) <= 0 && moments[tick].scene.outcome === "running";
const isDead = (tick, seat) => hitpoints(tick, seat) <= 0 && !isUnhurt(tick, seat);
/** What food and brews would heal, in full health bars. */
const healing = (tick, seat) => fighter(tick, seat).food_bars + fighter(tick, seat).brew_bars;
/** Health plus healing: what the opponent has to overcome. */
function life(tick, seat) {
  const one = fighter(tick, seat);
  return one.hitpoints > 0 ? one.hitpoints / Math.max(one.max_hitpoints, 1) + healing(tick, seat) : 0;
}

scene.charts = [
  ["hitpoints", 72, (tick, seat) => (isUnhurt(tick, seat) ? fighter(tick, seat).max_hitpoints : hitpoints(tick, seat)), (value) => value],
  ["health, food and brews left, in health bars", 40, life, (value) => value.toFixed(1)],
].slice(0, isSeen() ? 1 : 2);
