// The panel of each fighter: its name, its choices, and what the game adds.
// Of a head with more choices than the first number, as many as the second are shown: the likeliest, and the one taken.
const MOST_CELLS = 200, LIKELIEST = 8;

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
    if (head.choices.length > MOST_CELLS) return drawLikeliest(tick, seat, number, made.chosen[number], shares || {});
    head.choices.forEach((choice, index) => {
      const isOpen = mask === null || mask[index] === "1", share = shares ? shares[choice.id] || 0 : null;
      drawCell(parts.rows[number].cells[index], choice, head.number || made.chosen[number] === index, isOpen, share);
    });
    if (head.number) parts.rows[number].cells[0].share.textContent = made.chosen[number].toFixed(2);
  });
}

function drawLikeliest(tick, seat, number, taken, shares) {
  const { choices } = fight.heads[number], share = (index) => shares[choices[index].id] || 0;
  const shown = choices.map((choice, index) => index).filter((index) => index === taken || share(index) >= 0.005);
  const cells = shown.sort((one, other) => share(other) - share(one)).slice(0, LIKELIEST).concat(taken).filter((each, place, all) => all.indexOf(each) === place).map((index) => {
    const cell = makeCell(choices[index], scene.label(tick, seat, number, index));
    drawCell(cell, choices[index], index === taken, true, choices[index].id in shares ? share(index) : null);
    return cell.box;
  });
  panels[seat].rows[number].row.querySelector(".cells").replaceChildren(...cells);
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
  const cells = head.choices.length > MOST_CELLS ? [] : head.choices.map((choice, index) => makeCell(choice, labels[index]));
  const row = element("div", { class: "head", "data-head": head.id }, element("span", { title: head.description }, inWords(head.id)));
  row.append(element("div", { class: "cells" }, ...cells.map((cell) => cell.box)));
  heads.append(row);
  return { row, cells };
}

function makeCell(choice, label) {
  const weight = element("div", { class: "weight" }), share = element("span", { class: "share" });
  return { box: element("div", { class: "cell", "data-entry": choice.id }, weight, element("span", { class: "label" }, label), share), weight, share };
}

const panels = SEATS.map(makePanel);
