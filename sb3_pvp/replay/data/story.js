// Who is winning and why: in one sentence, in figures, and event by event.
function drawSummary(tick) {
  byId("summary").replaceChildren(...(tick === lastTick ? ending() : standing(tick)));
}

const called = (seat) => element("b", { class: `seat${seat}` }, names[seat]);

function ending() {
  const winner = fight.outcomes.indexOf("won"), text = page.events[page.events.length - 1].text;
  if (winner < 0) return [`After ${lastTick} ticks ${text}.`];
  return [called(winner), ` wins after ${lastTick} ticks. `, ...reasons(lastTick, winner)];
}

function standing(tick) {
  const lives = SEATS.map((seat) => life(tick, seat)), lead = lives[0] - lives[1];
  if (Math.abs(lead) < 0.1) return [`Neither is ahead: health, food and brews are level. Prayer points left ${SEATS.map((seat) => fighter(tick, seat).prayer).join(" to ")}.`];
  const seat = lead > 0 ? 0 : 1, other = 1 - seat;
  const have = (one) => `${hitpoints(tick, one)} HP and ${healing(tick, one).toFixed(1)} bars of food and brews`;
  return [called(seat), ` is ahead: ${have(seat)}, against ${hitpoints(tick, other)} and ${healing(tick, other).toFixed(1)}. `, ...reasons(tick, seat)];
}

/** In what the seat was better so far. */
function reasons(tick, seat) {
  const found = Object.fromEntries(tallies(tick).map(([name, ...both]) => [name, [both[seat], both[1 - seat]]]));
  const [dealt, taken] = found["damage dealt"];
  const damage = dealt >= taken ? `Damage dealt ${dealt} to ${taken}` : `Damage dealt only ${dealt} to ${taken}`;
  const [own, foe] = [0, 1].map((side) => found["off prayer"][side] / Math.max(found.attacks[side], 1));
  const usesPrayer = fighter(tick, 0).overhead !== null && found.attacks[0] && found.attacks[1];
  return [usesPrayer ? `${damage}; attacks off prayer ${own < foe ? "only " : ""}${percent(own)} to ${percent(foe)}.` : `${damage}.`];
}

function drawTally(tick) {
  const shown = tallies(tick).filter(([name]) => name !== "off prayer" || fighter(0, 0).overhead !== null);
  const rows = shown.map(([name, ...both]) => {
    const cells = SEATS.map((seat) => element("td", { class: `seat${seat}${both[seat] > both[1 - seat] ? " ahead" : ""}` }, String(both[seat])));
    return element("tr", {}, cells[0], element("td", {}, name), cells[1]);
  });
  byId("tally").tBodies[0].replaceChildren(...rows);
}

const logLines = page.events.map((event) => {
  const who = event.seat === null ? [] : [called(event.seat), " "];
  const line = element("p", { class: event.kind, "data-tick": String(event.tick) }, element("span", { class: "when" }, String(event.tick)), ...who, event.text);
  line.addEventListener("click", () => goTo(event.tick));
  return line;
});
byId("log").append(...logLines);

function drawLog(tick) {
  let latest = null;
  page.events.forEach((event, number) => {
    logLines[number].classList.toggle("later", event.tick > tick);
    logLines[number].classList.toggle("now", event.tick === tick);
    if (event.tick <= tick) latest = logLines[number];
  });
  const log = byId("log");
  log.scrollTop = latest ? latest.offsetTop + latest.offsetHeight - log.clientHeight + 20 : 0;
}
