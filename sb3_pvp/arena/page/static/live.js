// A live fight: moments come from the server, and are added to those that the player shows.
let socket = null, isOver = false, wait = 500;

function append(message) {
  const first = moments.length, fresh = message.moments.slice(Math.max(first - message.first, 0));
  const follows = current === lastTick;
  if (message.before && first > 0 && message.first === first) moments[first - 1].outlooks = message.before;
  for (const moment of fresh) moments.push(moment);
  const known = new Set(page.events.map((event) => `${event.tick} ${event.seat} ${event.kind} ${event.text}`));
  for (const event of message.events || []) {
    if (known.has(`${event.tick} ${event.seat} ${event.kind} ${event.text}`)) continue;
    page.events.push(event);
    logLines.push(makeLine(event));
  }
  if (message.outcomes) fight.outcomes.splice(0, 2, ...message.outcomes);
  if (fresh.length) {
    lastTick = moments.length - 1;
    byId("scrubber").max = String(lastTick);
    byId("log").setAttribute("aria-live", "polite");
    addLines(first);
    charts = makeCharts();
    marksCursor = drawMarks();
  }
  if (fresh.length || message.state === "over") show(follows ? lastTick : current);
  if (message.state) showState(message);
  played(message);
}

function showState(message) {
  isOver = message.state === "over";
  document.documentElement.dataset.state = message.state;
  byId("badge").textContent = isOver ? "over" : message.state === "paused" ? "paused" : "live";
  byId("badge").classList.toggle("over", isOver);
  byId("pace").value = String(message.speed.toFixed(message.speed < 1 ? 2 : 1)).replace("0.50", "0.5");
  byId("steering").hidden = key === null || isOver || person !== null;
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/api/live/${place}/watch?after=${lastTick}${key === null ? "" : `&key=${key}`}`);
  socket.addEventListener("message", (event) => {
    wait = 500;
    byId("status").textContent = "";
    append(JSON.parse(event.data));
  });
  socket.addEventListener("close", () => {
    if (isOver) return;
    byId("status").textContent = "the connection is lost, trying again…";
    setTimeout(connect, wait);
    wait = Math.min(2 * wait, 10000);
  });
}

async function steer(wish, value = null) {
  const response = await fetch(`/api/live/${place}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ key, do: wish, value }) });
  if (!response.ok) byId("status").textContent = (await response.json()).error;
}

for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => steer(button.dataset.do));
byId("pace").addEventListener("change", (event) => steer("speed", Number(event.target.value)));
byId("follow").addEventListener("click", () => goTo(lastTick));
if (isMine) startPlaying();
if (!after) goTo(lastTick);
if (!after) connect();
else showState(page.live);
