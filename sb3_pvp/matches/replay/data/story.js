// Which fighter is winning and why: a sentence, a table and the list of events.
function drawSummary(tick) {
  byId("summary").replaceChildren(...(tick === lastTick ? ending() : scene.standing(tick)));
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
