// The pitch seen from above, in metres: x to the right, z up.
const OUTLINE = [[13.56, 7.508], [15.46, 4.22], [15.46, 4.2], [17.373, 4.2]], TRAIL = 12;
const RAY_COLORS = { b: "var(--text)", w: "var(--line)", "-": "var(--line)" };
const agentsOf = (tick, seat) => moments[tick].scene.agents.filter((agent) => agent.seat === seat);
const showsRays = [false, false];

scene.picture = (tick) => {
  const { agents, ball } = moments[tick].scene;
  const picture = shape("svg", { viewBox: "-18 -8 36 16", role: "img", class: "pitch" });
  picture.append(shape("title", {}, inWordsOf(tick)), ...ground(agents), ...trail(tick));
  for (const agent of agents) if (showsRays[agent.seat]) picture.append(...rays(agent));
  for (const agent of agents) picture.append(figure(agent));
  picture.append(shape("circle", { class: "ball", cx: ball[0], cy: -ball[1], r: 0.624 }));
  return picture;
};

function inWordsOf(tick) {
  const { seconds, ball } = moments[tick].scene;
  return `after ${seconds.toFixed(1)} seconds the ball is ${Math.abs(ball[0]).toFixed(1)} metres from the middle, on the side of ${names[ball[0] < 0 ? 0 : 1]}`;
}

function ground(agents) {
  const corners = [[1, 1], [1, -1], [-1, -1], [-1, 1]].flatMap(([x, z], part) => {
    const points = OUTLINE.map(([across, up]) => `${x * across},${-z * up}`);
    return part % 2 ? points.reverse() : points;
  });
  const goals = SEATS.map((seat) => shape("rect", { class: `goal seat${seat}`, x: seat ? 15.126 : -17.373, y: -4.2, width: 2.247, height: 8.4 }));
  const wall = agents.some((agent) => agent.position === "goalie") ? [shape("rect", { class: "wall", x: -16.01, y: -3.96, width: 1, height: 7.92 })] : [];
  return [shape("polygon", { class: "grass", points: corners.join(" ") }), ...goals, shape("line", { class: "middle-line", x1: 0, x2: 0, y1: -7.5, y2: 7.5 }), ...wall];
}

/** Where the ball was, fading. */
function trail(tick) {
  const lines = [];
  for (let past = Math.max(tick - TRAIL, 0); past < tick; past++) {
    const [from, to] = [past, past + 1].map((each) => moments[each].scene.ball);
    lines.push(shape("line", { class: "trail", x1: from[0], y1: -from[1], x2: to[0], y2: -to[1], opacity: (TRAIL - tick + past + 1) / TRAIL }));
  }
  return lines;
}

function rays(agent) {
  return agent.reach.map((reach, ray) => {
    const angle = ((agent.yaw + ANGLES[agent.position][ray]) * Math.PI) / 180, met = agent.met[ray];
    const end = { x2: agent.x + reach * Math.sin(angle), y2: -agent.z - reach * Math.cos(angle) };
    return shape("line", { class: "ray", x1: agent.x, y1: -agent.z, ...end, stroke: RAY_COLORS[met] || `var(--seat${agent.seat})` });
  });
}

function figure(agent) {
  const body = shape("g", { class: `agent seat${agent.seat}`, transform: `translate(${agent.x} ${-agent.z}) rotate(${agent.yaw})` });
  body.append(shape("title", {}, agent.name), shape("path", { d: "M-.42 -.27L0 -.95L.42 -.27Z" }), shape("circle", { r: 0.5 }));
  if (agent.touches) body.append(shape("circle", { class: "touch", r: 0.75 }));
  return body;
}

scene.panel = (seat) => {
  const box = element("input", { type: "checkbox" }), lines = element("div", { class: "agents" });
  box.addEventListener("change", () => {
    showsRays[seat] = box.checked;
    show(current);
  });
  const draw = (tick) => lines.replaceChildren(...agentsOf(tick, seat).map((agent) => element("p", {}, agentInWords(agent))));
  return { above: [lines], below: [element("label", { class: "rays" }, box, " show the rays of this team")], draw };
};

const SEEN = { b: "the ball", h: "its own goal", g: "the goal", t: "a teammate", p: "an opponent" };

function agentInWords(agent) {
  const seen = [...new Set(agent.met)].map((letter) => SEEN[letter]).filter(Boolean);
  return `${inWords(agent.name)} at (${agent.x.toFixed(1)}, ${agent.z.toFixed(1)}) sees ${seen.length ? seen.join(", ") : "nobody"}`;
}

const toScore = (tick, seat) => 15.126 + (seat ? 1 : -1) * moments[tick].scene.ball[0];
scene.charts = [["metres from the ball to the goal to score in", 72, toScore, (value) => value.toFixed(0)]];
scene.mark = (event) => (event.kind === "touch" ? { by: event.seat, length: 9, inner: 3 } : null);
scene.tallies = (tick) => {
  const touches = SEATS.map((seat) => page.events.filter((event) => event.kind === "touch" && event.tick <= tick && event.seat === seat).length);
  const ahead = SEATS.map((seat) => moments.slice(0, tick + 1).filter((_, each) => toScore(each, seat) < 15.126).length / 10);
  return [["touches of the ball", ...touches], ["seconds in the other half", ...ahead]];
};
scene.standing = (tick) => {
  const seat = toScore(tick, 0) < toScore(tick, 1) ? 0 : 1;
  return [called(seat), ` attacks: the ball is ${toScore(tick, seat).toFixed(1)} metres from the goal.`];
};
scene.reasons = (tick, seat) => scene.tallies(tick).map(([name, ...both]) => `${name} ${both[seat]} to ${both[1 - seat]}. `);
