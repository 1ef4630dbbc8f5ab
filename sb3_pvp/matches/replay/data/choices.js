// The panel of each fighter: its name, its choices, and what the game adds.
function drawPanel(tick, seat) {
  const parts = panels[seat];
  parts.own.draw(tick);
  parts.mind.textContent = mindInWords(tick, seat);
  parts.result.textContent = tick === lastTick ? inWords(fight.outcomes[seat]) : "";
  drawHeads(tick, seat);
}

function mindInWords(tick, seat) {
  const view = outlook(tick, seat), gained = reward(tick, seat), parts = [];
  if (view && view.win_probability !== undefined && view.win_probability !== null) parts.push(`wins with ${percent(view.win_probability)}`);
  if (view) parts.push(`value ${rounded(view.value)}`);
  if (gained !== null) parts.push(`reward ${rounded(gained)}`);
  return parts.join(" · ");
}

function drawHeads(tick, seat) {
  const parts = panels[seat], made = decision(tick, seat);
  parts.heads.hidden = made === null;
  parts.silent.hidden = made !== null;
  parts.silent.textContent = tick ? "Choices unknown: it is not an agent." : "Start of the fight: no choice yet.";
  if (made === null) return;
  fight.heads.forEach((head, number) => {
    const shares = made.probabilities ? made.probabilities[number] : null, mask = made.open ? made.open[number] : null;
    const isForced = mask !== null && mask.replaceAll("0", "").length < 2;
    parts.rows[number].row.classList.toggle("forced", isForced);
    head.choices.forEach((choice, index) => {
      const isOpen = mask === null || mask[index] === "1", share = shares ? shares[choice.id] || 0 : null;
      drawCell(parts.rows[number].cells[index], choice, head.number || made.chosen[number] === index, isOpen, share);
    });
    if (head.number) parts.rows[number].cells[0].share.textContent = made.chosen[number].toFixed(2);
  });
}

function drawCell(cell, choice, isChosen, isOpen, share) {
  cell.box.classList.toggle("chosen", isChosen);
  cell.box.classList.toggle("masked", !isOpen);
  cell.weight.style.width = `${100 * (share || 0)}%`;
  cell.share.textContent = share === null || !isOpen ? "" : share > 0 && share < 0.01 ? "<1%" : percent(share);
  const facts = [choice.description, isOpen ? "" : "masked", share === null ? "" : `probability ${share}`, isChosen ? "chosen" : ""];
  cell.box.title = facts.filter(Boolean).join("; ");
}

function makePanel(seat) {
  const parts = { own: scene.panel(seat), result: element("span", { class: "result" }), mind: element("span", {}) };
  parts.heads = element("div", { class: "heads" });
  parts.silent = element("p", { class: "silent" });
  parts.rows = fight.heads.map((head, number) => makeRow(head, page.labels[number], parts.heads));
  const title = element("h2", {}, element("span", { class: `seat${seat}` }, names[seat]), element("small", {}, kindInWords(seat)), parts.result);
  const chosen = element("h3", {}, fight.players[seat].kind === "model" ? "probabilities and choice" : "choice", parts.mind);
  byId(`fighter${seat}`).replaceChildren(title, ...parts.own.above, chosen, parts.heads, parts.silent, ...parts.own.below);
  byId(`fighter${seat}`).setAttribute("aria-label", names[seat]);
  return parts;
}

function kindInWords(seat) {
  return { model: "", script: "a script", bot: "the world's bot", agent: "" }[fight.players[seat].kind];
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
