// Which fighter is winning and why: a sentence, a table and the list of events.
function drawSummary(tick) {
  const last = page.events[page.events.length - 1];
  byId("summary").replaceChildren(...(tick === lastTick && last && last.kind === "end" ? ending() : scene.standing(tick)));
}

function ending() {
  const winner = fight.outcomes.indexOf("won"), text = page.events[page.events.length - 1].text;
  if (winner < 0) return [`After ${lastTick} ticks ${text}.`];
  return [called(winner), ` wins after ${lastTick} ticks. `, ...scene.reasons(lastTick, winner)];
}

function drawTally(tick) {
  const rows = scene.tallies(tick).map(([name, ...both]) => {
    const cells = SEATS.map((seat) => element("td", { class: `seat${seat}${both[seat] > both[1 - seat] ? " ahead" : ""}` }, String(both[seat])));
    return element("tr", {}, cells[0], element("td", {}, name), cells[1]);
  });
  byId("tally").tBodies[0].replaceChildren(...rows);
}

function makeLine(event) {
  const who = event.seat === null ? [] : [called(event.seat), " "];
  const line = element("p", { class: event.kind, "data-tick": String(event.tick) }, element("span", { class: "when" }, String(event.tick)), ...who, event.text);
  line.addEventListener("click", () => goTo(event.tick));
  byId("log").append(line);
  return line;
}

const logLines = page.events.map(makeLine);

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

/** The tick in a line, for who reads or hears the fight: what both chose, and what happened. */
function inOneLine(tick) {
  const parts = SEATS.map((seat) => {
    const made = decision(tick, seat);
    const chosen = made === null ? [] : made.chosen.map((choice, head) => [fight.heads[head].number ? choice.toFixed(2) : scene.label(tick, seat, head, choice), head]).filter(([label]) => label !== "none");
    return chosen.length ? `${names[seat]}: ${chosen.map(([label, head]) => `${inWords(fight.heads[head].id)} ${label}`).join(", ")}` : "";
  });
  const happened = page.events.filter((event) => event.tick === tick).map((event) => `${event.seat === null ? "" : `${names[event.seat]} `}${event.text}`);
  return [`Tick ${tick}`, ...parts, ...happened].filter(Boolean).join(". ");
}

function addLines(first) {
  for (let tick = first; tick <= lastTick; tick++) byId("lines").append(element("p", {}, inOneLine(tick)));
}

addLines(0);
