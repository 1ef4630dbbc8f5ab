// What is known of each fighter: its state, and what it chose from.
const STATE = { good: 0.6, fair: 0.3, bad: -1 };

function drawPanel(tick, seat) {
  const parts = panels[seat], one = fighter(tick, seat);
  setBar(parts.hp, one.hitpoints, one.max_hitpoints, `${one.hitpoints}/${one.max_hitpoints}`);
  const share = one.hitpoints / Math.max(one.max_hitpoints, 1);
  parts.hp.fill.className = `fill ${Object.keys(STATE).find((name) => share > STATE[name])}`;
  setBar(parts.prayer, one.prayer, one.max_prayer, `${one.prayer}/${one.max_prayer}`);
  setBar(parts.special, one.special_energy, 1, percent(one.special_energy));
  parts.stance.replaceChildren(...stance(one));
  parts.supplies.replaceChildren(...supplies(one));
  parts.mind.textContent = mindInWords(tick, seat);
  parts.result.textContent = tick === lastTick ? inWords(fight.outcomes[seat]) : "";
  const worn = Object.values(one.gear || {});
  parts.gear.textContent = worn.length ? `Wears ${worn.join(", ")}.` : "";
  drawHeads(tick, seat);
}

function setBar(bar, value, full, number) {
  bar.fill.style.width = `${100 * Math.min(Math.max(value / Math.max(full, 1), 0), 1)}%`;
  bar.number.textContent = number;
  bar.track.setAttribute("aria-valuenow", String(value));
  bar.track.setAttribute("aria-valuemax", String(full));
}

const chip = (text, kind = "") => element("span", { class: `chip ${kind}` }, text);

function stance(one) {
  const weapon = (one.gear || {}).weapon || one.weapon, chips = [];
  chips.push(chip(weapon ? `${weapon} (${one.style})` : `wields ${one.style}`, one.style));
  if (one.overhead !== null) chips.push(chip(one.overhead === "none" ? "no overhead prayer" : `prays ${one.overhead}`, one.overhead));
  if (one.hitpoints <= 0) return [...chips, chip("dead", "melee")];
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
  const counts = Object.entries({ ...one.food, ...one.potions }).map(([name, count]) => chip(`${name} ${count}`));
  const levels = Object.entries(one.levels || {}).map(([skill, change]) => `${skill} ${change > 0 ? "+" : "−"}${Math.abs(change)}`);
  if (levels.length) counts.push(element("span", { class: "chip", title: levels.join(", ") }, `levels ${levels.length} changed`));
  return [chip(`heals ${(one.food_bars + one.brew_bars).toFixed(1)} bars`), ...counts];
}

function mindInWords(tick, seat) {
  const view = outlook(tick, seat), gained = reward(tick, seat), parts = [];
  if (view && view.win_probability !== undefined && view.win_probability !== null) parts.push(`wins with ${percent(view.win_probability)}`);
  if (view) parts.push(`value ${view.value.toFixed(2)}`);
  if (gained !== null) parts.push(`reward ${gained.toFixed(2)}`);
  return parts.join(" · ");
}

function drawHeads(tick, seat) {
  const parts = panels[seat], made = decision(tick, seat);
  parts.heads.hidden = made === null;
  parts.silent.hidden = made !== null;
  parts.silent.textContent = tick ? "Nobody knows what it chose: it is no agent." : "The fight begins: nothing was chosen yet.";
  if (made === null) return;
  fight.heads.forEach((head, number) => {
    const shares = made.probabilities ? made.probabilities[number] : null, mask = made.open ? made.open[number] : null;
    const isForced = mask !== null && mask.replaceAll("0", "").length < 2;
    parts.rows[number].row.classList.toggle("forced", isForced);
    head.choices.forEach((choice, index) => {
      const isOpen = mask === null || mask[index] === "1", share = shares ? shares[choice.id] || 0 : null;
      drawCell(parts.rows[number].cells[index], choice, made.chosen[number] === index, isOpen, share);
    });
  });
}

function drawCell(cell, choice, isChosen, isOpen, share) {
  cell.box.classList.toggle("chosen", isChosen);
  cell.box.classList.toggle("masked", !isOpen);
  cell.weight.style.width = `${100 * (share || 0)}%`;
  cell.share.textContent = share === null || !isOpen ? "" : share > 0 && share < 0.01 ? "<1%" : percent(share);
  const told = [choice.description, isOpen ? "" : "masked", share === null ? "" : `probability ${share}`, isChosen ? "chosen" : ""];
  cell.box.title = told.filter(Boolean).join("; ");
}

function makePanel(seat) {
  const parts = { result: element("span", { class: "result" }), stance: element("div", { class: "chips" }), supplies: element("div", { class: "chips" }) };
  parts.hp = makeBar("hitpoints", "hp");
  parts.prayer = makeBar("prayer", "prayer");
  parts.special = makeBar("special", "special");
  parts.mind = element("span", {});
  parts.heads = element("div", { class: "heads" });
  parts.silent = element("p", { class: "silent" });
  parts.gear = element("p", { class: "gear" });
  parts.rows = fight.heads.map((head, number) => makeRow(head, page.labels[number], parts.heads));
  const title = element("h2", {}, element("span", { class: `seat${seat}` }, names[seat]), element("small", {}, kindInWords(seat)), parts.result);
  const bars = [parts.hp, parts.prayer, parts.special].map((bar) => bar.row);
  const chosen = element("h3", {}, fight.players[seat].kind === "model" ? "what it chose from" : "what it chose", parts.mind);
  byId(`fighter${seat}`).replaceChildren(title, ...bars, parts.stance, parts.supplies, chosen, parts.heads, parts.silent, parts.gear);
  byId(`fighter${seat}`).setAttribute("aria-label", names[seat]);
  return parts;
}

function kindInWords(seat) {
  return { model: "", script: "a script", bot: "the world's bot", agent: "" }[fight.players[seat].kind];
}

function makeBar(name, kind) {
  const fill = element("div", { class: `fill ${kind}` }), number = element("span", { class: "number" });
  const track = element("div", { class: "track", role: "meter", "aria-label": name, "aria-valuemin": "0" }, fill);
  return { row: element("div", { class: `bar ${kind}` }, element("span", {}, name), track, number), fill, number, track };
}

function makeRow(head, labels, heads) {
  const cells = head.choices.map((choice, index) => {
    const weight = element("div", { class: "weight" }), share = element("span", { class: "share" });
    const box = element("div", { class: "cell", "data-entry": choice.id }, weight, element("span", { class: "label" }, labels[index]), share);
    return { box, weight, share };
  });
  const row = element("div", { class: "head", "data-head": head.id }, element("span", { title: head.description }, inWords(head.id)));
  row.append(element("div", { class: "cells" }, ...cells.map((cell) => cell.box)));
  heads.append(row);
  return { row, cells };
}

const panels = SEATS.map(makePanel);
