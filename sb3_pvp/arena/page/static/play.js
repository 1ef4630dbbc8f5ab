// Playing: controls by mouse, keyboard or touch, what is queued for the next tick, and what is said after the fight.
const place = location.pathname.split("/").pop(), key = sessionStorage.getItem(`key ${place}`);
const person = page.person, after = page.after, isMine = person !== null && key !== null && !after;
// By sub-action: the positions of its head and in it.
const PLACES = new Map(fight.heads.flatMap((head, number) => head.choices.map((choice, index) => [choice.id, [number, index]])));
const CONTROLS = person === null ? [] : person.groups.flatMap((group) => group.controls);
const BY_ACTION = new Map(CONTROLS.map((control) => [control.action, control]));
const KEPT = `keys ${fight.contract}`, SETTINGS = "play settings", TABS = ["F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8"];
const GROUPS = person === null ? [] : person.groups.filter((group) => group.shape !== "picture"), ENDING = 900, READING = 2500;
let queue = [], keys = {}, buttons = {}, dueAt = 0, readUntil = 0, sounds = null, tab = 0;

const parts = (control) => [control.action, ...control.also];
const headsOf = (control) => parts(control).map((each) => PLACES.get(each)[0]);
const isAllowed = (id) => PLACES.has(id) && moments[lastTick].can[PLACES.get(id)[0]][PLACES.get(id)[1]] === "1";
const reason = (control) => parts(control).filter((each) => !isAllowed(each)).map((each) => (moments[lastTick].why || {})[each] || "not possible now")[0] || "";

/** Answers a player; a tick without news lets the words stand until they are read. */
function say(words) {
  byId("said").textContent = words;
  readUntil = performance.now() + READING;
}

/** Draws the scene again after a choice in it, and answers if there are words. */
function redraw(words) {
  byId("arena").replaceChildren(scene.picture(current));
  if (words) say(words);
}

function press(control) {
  const why = reason(control);
  if (why) {
    say(`${control.label}: ${why}`);
    return;
  }
  const isQueued = queue.includes(control);
  const heads = headsOf(control);
  queue = queue.filter((each) => each !== control && !headsOf(each).some((head) => heads.includes(head)));
  if (!isQueued) queue.push(control);
  send();
  drawQueue();
}

function send() {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ do: queue.map((each) => each.action) }));
}

function drawQueue() {
  for (const [action, button] of Object.entries(buttons)) button.setAttribute("aria-pressed", String(queue.includes(BY_ACTION.get(action))));
  const list = queue.map((control) => {
    const undo = element("button", { type: "button", title: "Take it back" }, `${control.label} ✕`);
    undo.addEventListener("click", () => press(control));
    return element("li", {}, undo);
  });
  byId("queue").replaceChildren(...(list.length ? list : [element("li", { class: "none" }, person.waits ? "choose" : "nothing yet")]));
}

/** After a tick: what happened, what is possible now, and when the next one is due. */
function drawControls(message) {
  const moment = moments[lastTick], wished = queue.map((each) => each.label);
  const played = new Set(moment.played || []), done = CONTROLS.filter((control) => played.has(control.action));
  const missed = queue.filter((control) => !done.includes(control)).map((each) => each.label);
  queue = [];
  for (const [action, button] of Object.entries(buttons)) {
    const control = BY_ACTION.get(action), why = reason(control);
    button.setAttribute("aria-disabled", String(Boolean(why)));
    button.title = why || `${control.label} (${keys[control.action] || "no key"})`;
    button.querySelector(".why").textContent = why;
  }
  const did = done.map((each) => each.label).join(", "), news = missed.length && wished.length ? `${did || "Nothing"}; too late for ${missed.join(", ")}` : did;
  if (news || performance.now() > readUntil) byId("said").textContent = news;
  drawQueue();
  byId("goes").textContent = person.waits && moment.can.some((head) => head.replaceAll("0", "").length > 1) ? "It is your turn." : "";
}

function beat() {
  const left = dueAt - performance.now(), bar = byId("metronome");
  bar.style.setProperty("--left", String(Math.min(Math.max(left / TICK_MILLISECONDS, 0), 1)));
  const seconds = Math.ceil(left / 1000);
  byId("countdown").textContent = lastTick === 0 && seconds > 0 && !person.waits ? String(seconds) : "";
  if (!isOver) requestAnimationFrame(beat);
}

function click() {
  if (sounds === null) return;
  const tone = sounds.createOscillator(), loud = sounds.createGain();
  loud.gain.setValueAtTime(0.08, sounds.currentTime);
  loud.gain.exponentialRampToValueAtTime(0.0001, sounds.currentTime + 0.05);
  tone.frequency.value = 880;
  tone.connect(loud).connect(sounds.destination);
  tone.start();
  tone.stop(sounds.currentTime + 0.06);
}

async function measureLatency() {
  const began = performance.now();
  await fetch(`/api/live/${place}`, { cache: "no-store" }).catch(() => null);
  byId("latency").textContent = `${Math.round(performance.now() - began)} ms to the server`;
  if (!isOver) setTimeout(measureLatency, 5000);
}

/** What the live page calls with each message. */
function played(message) {
  if (!isMine) return;
  if (message.wait !== undefined) dueAt = performance.now() + 1000 * message.wait;
  if (message.moments.length) {
    drawControls(message);
    click();
  }
  if (message.state === "over") setTimeout(() => location.reload(), ENDING);
}

function readKeys() {
  const kept = JSON.parse(localStorage.getItem(KEPT) || "{}");
  keys = Object.fromEntries(CONTROLS.map((control) => [control.action, kept[control.action] ?? control.key]));
}

function makeControls() {
  const pads = GROUPS.map((group, number) => {
    const head = element("button", { type: "button", class: "tab", "aria-expanded": String(number === 0) }, group.label, element("kbd", {}, TABS[number] || ""));
    head.addEventListener("click", () => openTab(number));
    const box = element("div", { class: `pad ${group.shape}`, role: "group", "aria-label": group.label });
    if (group.shape === "grid") box.style.setProperty("--columns", String(group.columns));
    for (const control of group.controls) {
      const button = element("button", { type: "button", "data-action": control.action, "aria-pressed": "false" }, element("span", {}, control.label), element("kbd", {}, keys[control.action]), element("span", { class: "why" }));
      button.addEventListener("click", () => press(control));
      buttons[control.action] = button;
      box.append(button);
    }
    return element("section", { class: "group" }, head, box);
  });
  byId("pads").replaceChildren(...pads);
  byId("open-keys").hidden = !pads.length;
  if (pads.length) openTab(0, false);
}

function openTab(number, isFocused = true) {
  const groups = [...byId("pads").children];
  tab = Math.min(number, groups.length - 1);
  groups.forEach((group, index) => {
    group.classList.toggle("open", index === tab);
    group.querySelector(".tab").setAttribute("aria-expanded", String(index === tab));
  });
  if (isFocused) groups[tab].querySelector(".pad button").focus();
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) || byId("keys").open) return;
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const control = CONTROLS.find((each) => keys[each.action] === pressed);
  if (control) press(control);
  else if (TABS.includes(pressed) && TABS.indexOf(pressed) < GROUPS.length) openTab(TABS.indexOf(pressed));
  else if (pressed === "Escape") clearQueue();
  else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

function clearQueue() {
  queue = [];
  send();
  drawQueue();
}

function onMap(event) {
  const box = byId("arena").querySelector("svg"), moves = person.moves;
  if (!box || !scene.offsetAt || !moves) return;
  const at = box.getScreenCTM().inverse(), spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(at);
  const action = moves[scene.offsetAt(lastTick, spot.x, spot.y).join(",")], control = BY_ACTION.get(action);
  if (control) press(control);
}

/** The window in which keys are chosen: press one on a control's line. */
function makeKeyWindow() {
  const lines = Object.keys(buttons).map((action) => BY_ACTION.get(action)).map((control) => {
    const field = element("input", { type: "text", value: keys[control.action], "aria-label": `Key of ${control.label}`, readonly: "", size: "8" });
    field.addEventListener("keydown", (event) => {
      if (["Tab", "Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
      event.preventDefault();
      const pressed = ["Backspace", "Delete"].includes(event.key) ? "" : event.key.length === 1 ? event.key.toLowerCase() : event.key;
      if (pressed === "Escape") byId("keys").close();
      else setKey(control, pressed);
    });
    return element("label", { "data-key": control.action }, element("span", {}, control.label), field);
  });
  byId("key-list").replaceChildren(...lines);
}

function setKey(control, pressed) {
  for (const [action, each] of Object.entries(keys)) if (pressed && each === pressed) keys[action] = "";
  keys[control.action] = pressed;
  localStorage.setItem(KEPT, JSON.stringify(keys));
  showKeys();
}

function showKeys() {
  for (const [action, button] of Object.entries(buttons)) button.querySelector("kbd").textContent = keys[action];
  for (const line of byId("key-list").children) line.querySelector("input").value = keys[line.dataset.key];
}

function startPlaying() {
  document.documentElement.dataset.plays = "true";
  byId("play-pad").hidden = false;
  scene.press = (action) => press(BY_ACTION.get(action));
  scene.allows = (action) => BY_ACTION.has(action) && isAllowed(action);
  readKeys();
  makeControls();
  makeKeyWindow();
  drawControls({});
  document.addEventListener("keydown", onKey, true);
  byId("arena").addEventListener("click", onMap);
  byId("open-keys").addEventListener("click", () => byId("keys").showModal());
  byId("default-keys").addEventListener("click", () => {
    localStorage.removeItem(KEPT);
    readKeys();
    showKeys();
  });
  byId("clear").addEventListener("click", clearQueue);
  byId("give-up").addEventListener("click", () => steer("end"));
  byId("sound").addEventListener("change", (event) => {
    sounds = event.target.checked ? new AudioContext() : null;
  });
  beat();
  measureLatency();
}

const SAID = { won: "You have won.", lost: "You have lost.", tied: "It is a tie." };

function showAfter() {
  byId("after").hidden = false;
  const [own, other] = after.score, best = person.best_of;
  byId("result").textContent = `${SAID[fight.outcomes[0]] || "The time is up."}${best > 1 ? ` Best of ${best}: ${own} to ${other}.` : ""}`;
  byId("again").textContent = after.is_decided ? "Again" : "Next fight";
  byId("again").hidden = key === null;
  byId("again").addEventListener("click", again);
  const rows = (after.figures || []).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  byId("figures").replaceChildren(...rows);
  if (after.refusal) byId("result").append(` It is not on the ladder: ${after.refusal}.`);
  if (after.verdicts) showVerdicts();
  else showCostly();
}

function tickLink(tick, ...text) {
  const link = element("a", { href: `#tick=${tick}` }, `Tick ${tick}`);
  return element("li", {}, link, ": ", ...text);
}

function showVerdicts() {
  const hits = after.verdicts.filter((each) => each.hit).length, misses = after.verdicts.filter((each) => !each.hit);
  const share = after.verdicts.length ? percent(hits / after.verdicts.length) : "nothing to do came up";
  byId("result").textContent = `${person.drill}: ${hits} of ${after.verdicts.length} (${share}).`;
  byId("verdicts").replaceChildren(...misses.map((each) => tickLink(each.tick, each.reason)));
}

async function showCostly() {
  const found = await fetch(`/api/live/${place}/costly`).then((response) => response.json()).catch(() => ({ error: "the server is gone" }));
  const said = { waiting: "The ticks that cost you most are looked for, by playing the fight on many times: this takes about a minute…", none: found.cause };
  said.done = (found.ticks || []).length ? "What cost you most:" : "You always did what the fighter would have done.";
  byId("costly-said").textContent = found.error || said[found.state];
  if (found.state === "waiting") setTimeout(showCostly, 2000);
  for (const each of found.ticks || []) {
    const cost = `${Math.round(100 * each.cost)} % of a win (${Math.round(100 * each.low)} to ${Math.round(100 * each.high)})${each.low > 0 ? "" : ", which may be chance"}`;
    byId("costly").append(tickLink(each.tick, `${each.taken} instead of ${each.instead}: ${cost}`));
  }
}

async function again() {
  const response = await fetch(`/api/live/${place}/again`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ key }) });
  const found = await response.json();
  if (!response.ok) {
    byId("result").textContent = found.error;
    return;
  }
  sessionStorage.setItem(`key ${found.id}`, found.key);
  location.href = `/live/${found.id}`;
}

if (person !== null && after) showAfter();
