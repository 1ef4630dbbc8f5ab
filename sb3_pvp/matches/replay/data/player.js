// The current tick and the playback controls. The address may set the start: #tick=40&speed=4
const TICK_MILLISECONDS = 600;
const ICONS = { first: "M1 1H4V13H1ZM13 1V13L5 7Z", back: "M11 1V13L3 7Z", play: "M3 1L12 7L3 13Z", pause: "M2 1H6V13H2ZM8 1H12V13H8Z", forward: "M3 1L11 7L3 13Z", last: "M13 1H10V13H13ZM1 1V13L9 7Z" };
let current = 0, timer = null;

function show(tick) {
  current = Math.min(Math.max(tick, 0), lastTick);
  byId("scrubber").value = String(current);
  byId("scrubber").setAttribute("aria-valuetext", `tick ${current} of ${lastTick}`);
  byId("clock").textContent = `tick ${current} / ${lastTick}`;
  byId("arena").replaceChildren(scene.picture(current));
  SEATS.forEach((seat) => drawPanel(current, seat));
  SEATS.forEach((seat) => drawFuture(current, seat));
  drawCharts(current);
  drawSummary(current);
  drawTally(current);
  drawLog(current);
  document.documentElement.dataset.tick = String(current);
}

function goTo(tick) {
  pause();
  show(tick);
}

function play() {
  if (current === lastTick) show(0);
  setPlaying(true);
}

function pause() {
  setPlaying(false);
}

function setPlaying(isPlaying) {
  clearInterval(timer);
  timer = isPlaying ? setInterval(advance, TICK_MILLISECONDS / Number(byId("speed").value)) : null;
  setIcon("play", isPlaying ? "pause" : "play");
  byId("play").setAttribute("aria-label", isPlaying ? "Pause" : "Play");
  document.documentElement.dataset.playing = String(isPlaying);
}

function advance() {
  show(current + 1);
  if (current === lastTick) pause();
}

function setIcon(id, icon) {
  byId(id).replaceChildren(shape("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, shape("path", { d: ICONS[icon] })));
}

const toggle = () => (timer === null ? play() : pause());
const KEYS = { " ": toggle, ArrowLeft: () => goTo(current - 1), ArrowRight: () => goTo(current + 1), Home: () => goTo(0), End: () => goTo(lastTick) };
const BUTTONS = { first: () => goTo(0), back: () => goTo(current - 1), play: toggle, forward: () => goTo(current + 1), last: () => goTo(lastTick) };

function connectControls() {
  for (const [id, act] of Object.entries(BUTTONS)) {
    byId(id).addEventListener("click", act);
    setIcon(id, id);
  }
  byId("scrubber").max = String(lastTick);
  byId("scrubber").addEventListener("input", (event) => goTo(Number(event.target.value)));
  byId("speed").addEventListener("change", () => setPlaying(timer !== null));
  document.addEventListener("keydown", (event) => {
    const isOwnKey = event.target.tagName === "SELECT" || (event.key === " " && event.target.tagName === "BUTTON");
    if (isOwnKey || event.ctrlKey || event.altKey || event.metaKey || !(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  window.addEventListener("hashchange", startFromAddress);
}

function startFromAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.has("speed")) byId("speed").value = wanted.get("speed");
  goTo(Number(wanted.get("tick")) || 0);
  if (wanted.has("play")) play();
}

function drawTitle() {
  byId("title").replaceChildren(called(0), " against ", called(1));
  const seed = fight.seed ?? null, build = fight.build ?? null;
  const facts = [fight.contract, build && `build ${build}`, seed !== null && `seed ${seed}`, `world ${fight.world || "sim"}`, fight.deterministic && "most likely actions"];
  byId("facts").textContent = facts.filter(Boolean).join(" · ");
}

drawTitle();
connectControls();
startFromAddress();
