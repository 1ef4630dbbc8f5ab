// The state of each fighter.
const STATE = { good: 0.6, fair: 0.3, bad: -1 };

scene.panel = (seat) => {
  const [hp, prayer, special] = [makeBar("hitpoints", "hp"), makeBar("prayer", "prayer"), makeBar("special", "special")];
  const [chips, supplied] = [element("div", { class: "chips" }), element("div", { class: "chips" })], gear = element("p", { class: "gear" });
  const draw = (tick) => {
    const one = fighter(tick, seat), share = one.hitpoints / Math.max(one.max_hitpoints, 1), worn = Object.values(one.gear || {});
    hp.row.hidden = isUnhurt(tick, seat);
    setBar(hp, one.hitpoints, one.max_hitpoints, `${one.hitpoints}/${one.max_hitpoints}`);
    hp.fill.className = `fill ${Object.keys(STATE).find((name) => share > STATE[name])}`;
    prayer.row.hidden = Boolean(one.hidden);
    setBar(prayer, one.prayer, one.max_prayer, `${one.prayer}/${one.max_prayer}`);
    setBar(special, one.special_energy, 1, percent(one.special_energy));
    chips.replaceChildren(...stance(one, isDead(tick, seat)));
    supplied.replaceChildren(...supplies(one));
    gear.textContent = worn.length ? `Wears ${worn.join(", ")}.` : "";
  };
  return { above: [hp.row, prayer.row, special.row, chips, supplied], below: [gear], draw };
};

function makeBar(name, kind) {
  const fill = element("div", { class: `fill ${kind}` }), number = element("span", { class: "number" });
  const track = element("div", { class: "track", role: "meter", "aria-label": name, "aria-valuemin": "0" }, fill);
  return { row: element("div", { class: `bar ${kind}` }, element("span", {}, name), track, number), fill, number, track };
}

function setBar(bar, value, full, number) {
  bar.fill.style.width = `${100 * Math.min(Math.max(value / Math.max(full, 1), 0), 1)}%`;
  bar.number.textContent = number;
  bar.track.setAttribute("aria-valuenow", String(value));
  bar.track.setAttribute("aria-valuemax", String(full));
}

const chip = (text, kind = "") => element("span", { class: `chip ${kind}` }, text);

function stance(one, dead) {
  const weapon = (one.gear || {}).weapon || one.weapon, chips = [];
  chips.push(chip(weapon ? `${weapon} (${one.style})` : `wields ${one.style}`, one.style));
  if (one.overhead !== null) chips.push(chip(one.overhead === "none" ? "no overhead prayer" : `prays ${one.overhead}`, one.overhead));
  if (dead) return [...chips, chip("dead", "melee")];
  const waits = one.waits || {};
  chips.push(waits.attack ? chip(`attacks in ${waits.attack}`) : chip("ready to attack", "ready"));
  for (const [name, ticks] of Object.entries(waits)) if (name !== "attack") chips.push(chip(`${name} in ${ticks}`));
  if (one.frozen_ticks > 0) chips.push(chip(`frozen ${one.frozen_ticks}`, "frozen"));
  else if (one.freeze_immunity_ticks > 0) chips.push(chip(`immune to ice ${one.freeze_immunity_ticks}`));
  if (one.vengeance) chips.push(chip("vengeance", "vengeance"));
  if (one.armor_off) chips.push(chip("armour off"));
  return chips;
}

function supplies(one) {
  if (one.hidden) return [];
  const counts = Object.entries({ ...one.food, ...one.potions }).map(([name, count]) => chip(`${name} ${count}`));
  const levels = Object.entries(one.levels || {}).map(([skill, change]) => `${skill} ${change > 0 ? "+" : "−"}${Math.abs(change)}`);
  if (levels.length) counts.push(element("span", { class: "chip", title: levels.join(", ") }, `levels ${levels.length} changed`));
  return [chip(`heals ${(one.food_bars + one.brew_bars).toFixed(1)} bars`), ...counts];
}
