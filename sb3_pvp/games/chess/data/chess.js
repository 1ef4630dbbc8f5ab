// The board, and moves of whoever plays: a piece and its target, by mouse, touch, or the names of squares as keys.
const SHAPES = {
  p: ["M50 18a15 15 0 0 1 9 27h7l-6 8c1 12 6 17 13 23H27c7-6 12-11 13-23l-6-8h7a15 15 0 0 1 9-27z"],
  n: ["M32 76c0-22 20-26 15-38l-13 10-11-4c2-10 10-20 18-24l2-9 9 7c18 6 26 26 22 58z"],
  b: ["M50 8a6 6 0 0 1 3 11c15 12 19 27 8 39l5 18H34l5-18C28 46 32 31 47 19a6 6 0 0 1 3-11z", "M50 27v16M42 35h16"],
  r: ["M25 16h12v9h8v-9h10v9h8v-9h12v20l-9 7 4 33H30l4-33-9-7z"],
  q: ["M28 76l-13-46 16 22 6-34 13 30 13-30 6 34 16-22-13 46z"],
  k: ["M45 6h10v7h8v9h-8v9c10-8 31-4 26 16-2 10-9 18-12 29H31c-3-11-10-19-12-29-5-20 16-24 26-16v-9h-8v-9h8z"],
};
const PIECES = { p: "pawn", n: "knight", b: "bishop", r: "rook", q: "queen", k: "king" }, BASE = "M23 79h54v10H23z";
const LESSER = "qrbn", COLORS = ["White", "Black"];
let picked = "", wanted = "", typed = "";

const whiteSeat = (tick) => moments[tick].scene.white;
const colorOf = (tick, seat) => COLORS[Number(seat !== whiteSeat(tick))];
/** A move as its own side names it, as the board has it; Black sees ranks the other way round. */
const turned = (move, isBlack) => (isBlack ? move.replace(/[1-8]/g, (rank) => 9 - rank) : move);
const personIsBlack = () => whiteSeat(lastTick) !== 0;
const allows = (from, to, piece = "") => scene.allows !== null && current === lastTick && scene.allows(turned(from + to, personIsBlack()) + piece);
if (page.person && moments.length && personIsBlack()) {
  for (const control of page.person.groups.flatMap((group) => group.controls)) control.label = turned(control.label, true);
}

/** Pieces by square, such as `{ e1: "K" }`. */
function boardOf(tick) {
  const board = {};
  moments[tick].scene.fen.split(" ")[0].split("/").forEach((row, down) => {
    let file = 0;
    for (const letter of row) {
      if (letter > "0" && letter < "9") file += Number(letter);
      else board["abcdefgh"[file++] + (8 - down)] = letter;
    }
  });
  return board;
}

function boardInWords(tick) {
  const { fen, move, ending } = moments[tick].scene;
  return `${move ? `last move ${move}, ` : ""}${ending || `${COLORS[Number(fen.split(" ")[1] === "b")]} to move`}`;
}

scene.picture = (tick) => {
  const { move, check, fen } = moments[tick].scene, board = boardOf(tick), isTurned = page.person ? personIsBlack() : false;
  const inCheck = check ? (fen.split(" ")[1] === "w" ? "K" : "k") : "";
  const picture = shape("svg", { viewBox: "0 0 800 800", role: "img", class: "chess" }, shape("title", {}, `Board: ${boardInWords(tick)}`));
  for (let row = 0; row < 8; row++) {
    for (let column = 0; column < 8; column++) {
      const file = isTurned ? 7 - column : column, rank = isTurned ? row + 1 : 8 - row, name = "abcdefgh"[file] + rank;
      const box = shape("g", { class: `square ${(file + rank) % 2 ? "dark" : "light"}`, transform: `translate(${100 * column} ${100 * row})`, "data-square": name });
      box.append(shape("rect", { width: 100, height: 100 }));
      if (move.slice(0, 2) === name || move.slice(2, 4) === name) box.classList.add("moved");
      if (picked === name) box.classList.add("picked");
      if (board[name] && board[name] === inCheck) box.classList.add("check");
      if (row === 7) box.append(shape("text", { x: 93, y: 96, class: "file" }, name[0]));
      if (column === 0) box.append(shape("text", { x: 4, y: 20 }, name[1]));
      if (board[name]) box.append(pieceOf(board[name]));
      if (picked && tick === lastTick && allows(picked, name)) box.append(shape("circle", { class: "target", cx: 50, cy: 50, r: board[name] ? 46 : 16 }));
      picture.append(box);
    }
  }
  if (wanted) picture.append(...choiceOfPieces());
  picture.addEventListener("click", (event) => {
    const at = event.target.closest("[data-square], [data-piece]");
    if (at && scene.press) (at.dataset.piece ? promote(at.dataset.piece) : pressSquare(at.dataset.square));
  });
  return picture;
};

function pieceOf(letter) {
  const kind = letter.toLowerCase(), [outline, ...lines] = SHAPES[kind];
  const piece = shape("g", { class: `piece ${letter === kind ? "black" : "white"}` }, shape("path", { d: outline + BASE }));
  piece.append(...lines.map((line) => shape("path", { class: "line", d: line })));
  return piece;
}

function choiceOfPieces() {
  return [...LESSER].map((kind, number) => {
    const box = shape("g", { class: "promotion", transform: `translate(${200 + 100 * number} 350)`, "data-piece": kind }, shape("title", {}, PIECES[kind]), shape("rect", { width: 100, height: 100 }));
    box.append(pieceOf(personIsBlack() ? kind : kind.toUpperCase()));
    return box;
  });
}

function pressSquare(name) {
  const from = picked;
  [picked, wanted, typed] = ["", "", ""];
  if (from && from !== name && allows(from, name)) {
    if (allows(from, name, "n")) [picked, wanted] = [from, name];
    else scene.press(turned(from + name, personIsBlack()));
  } else if (from !== name && squares().some((to) => allows(name, to))) picked = name;
  const why = wanted ? "Choose a piece: queen (Q), rook (R), bishop (B) or knight (N)." : picked ? `From ${picked}: choose where to.` : "";
  redraw(why || (from ? "" : `Nothing of yours can move from ${name}.`));
}

function promote(kind) {
  const move = turned(picked + wanted, personIsBlack()) + (kind === "q" ? "" : kind);
  [picked, wanted] = ["", ""];
  redraw("");
  scene.press(move);
}

const squares = () => [..."abcdefgh"].flatMap((file) => [..."12345678"].map((rank) => file + rank));

document.addEventListener("keydown", (event) => {
  const key = event.key.toLowerCase();
  if (!scene.press || current !== lastTick || event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "INPUT") return;
  if (wanted && LESSER.includes(key)) promote(key);
  else if (typed && /^[1-8]$/.test(key)) pressSquare(typed + key);
  else if (/^[a-h]$/.test(key)) {
    typed = key;
    say(`${picked}${key}…`);
  } else if (key === "escape") {
    [picked, wanted, typed] = ["", "", ""];
    redraw("");
    return;
  } else return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

scene.label = (tick, seat, head, choice) => {
  const { id } = fight.heads[head].choices[choice];
  return id === "wait" ? "none" : turned(id, colorOf(tick, seat) === "Black");
};
const WORTH = { p: 1, n: 3, b: 3, r: 5, q: 9, k: 0 };
const worth = (tick, seat) => Object.values(boardOf(tick)).filter((letter) => (letter !== letter.toLowerCase()) === (colorOf(tick, seat) === "White")).reduce((sum, letter) => sum + WORTH[letter.toLowerCase()], 0);
scene.panel = (seat) => {
  const line = element("p", { class: "color" });
  return { above: [line], below: [], draw: (tick) => (line.textContent = `${colorOf(tick, seat)}, pieces worth ${worth(tick, seat)}`) };
};
scene.charts = [["worth of the pieces", 39, worth, (value) => value.toFixed(0)]];
scene.mark = (event) => (event.kind === "capture" || event.kind === "check" ? { by: event.seat, length: event.kind === "check" ? 12 : 8, inner: 3 } : null);
scene.standing = (tick) => [boardInWords(tick).replace(/^./, (letter) => letter.toUpperCase()), "."];
scene.tallies = (tick) => [["worth of the pieces", ...SEATS.map((seat) => worth(tick, seat))]];
