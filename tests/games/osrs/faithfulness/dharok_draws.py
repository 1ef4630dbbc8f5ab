"""Finds draws that make a recorded fight: ``python -m tests.games.osrs.faithfulness.dharok_draws TRANSCRIPTS``.

``TRANSCRIPTS`` is a folder of recorded Dharok fights. A tick is played with many random states from many survivors of
the last one; those that show every recorded entry survive. What is hidden for a while (poison) differs among them. A
fight that nothing survives breaks a rule: the entries that were wrong in all trials say which.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import SimWorld
from tests.games.osrs.faithfulness.dharok_recordings import (
    CONTRACT,
    FIGHTS,
    Draws,
    Recording,
    disagreements,
    read_transcript,
    save,
)

TRIALS, MOST_ROUNDS = 4096, 2000
#: How many survivors are looked for, after how many rounds fewer will do, and how many are kept.
WANTED = ((0, 150), (60, 40), (300, 8))
KEPT = 300
FIRST_SEED = 1000
#: PID is redrawn where the recorded order changes, and nowhere else.
NEVER = 1_000_000
_PID = CONTRACT.observation_index("player_has_pid")
_DECISIVE = [
    CONTRACT.observation_index(name)
    for name in ("player_health_percent", "target_health_percent", "pending_damage_on_target", "tick_new_attack_damage")
]

Ints = NDArray[np.int64]


def force_pid(world: SimWorld, recording: Recording, t: int) -> None:
    """Seat 0 redraws its PID in tick ``t`` if the recorded order changes there; nobody does otherwise."""
    world.state["pid_countdown"] = NEVER
    known = recording.obs_known[t, 1] and recording.obs_known[t - 1, 1]
    if known and recording.obs[t, 1, _PID] != recording.obs[t - 1, 1, _PID]:
        world.state["pid_countdown"][:, 0] = 1


def play(world: SimWorld, recording: Recording, t: int, words: NDArray[np.uint32]) -> None:
    """Plays tick ``t`` of a recording in all fights, each with its random state."""
    force_pid(world, recording, t)
    world.fights["rng"] = words
    world.step(np.broadcast_to(recording.actions[t].astype(np.int64), (world.num_fights, *recording.actions[t].shape)))


@dataclass
class Survivors:
    """Fights that were the recorded one until now: their records, which of the last ones they come from, and how."""

    state: NDArray[np.void]
    fights: NDArray[np.void]
    parents: Ints
    words: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.words)

    def chosen(self, which: Ints) -> Survivors:
        return Survivors(self.state[which], self.fights[which], self.parents[which], self.words[which])

    def varied(self, count: int, rng: np.random.Generator) -> Survivors:
        """At most ``count``, as different in what is hidden as possible."""
        hidden = np.concatenate([self.state["poison"], self.state["poison_countdown"]], axis=1)
        _, kind = np.unique(hidden, axis=0, return_inverse=True)
        order = rng.permutation(len(self))
        place_in_kind = np.zeros(len(self), int)
        seen: dict[int, int] = {}
        for k in order:
            place_in_kind[k] = seen[int(kind[k])] = seen.get(int(kind[k]), -1) + 1
        return self.chosen(order[np.argsort(place_in_kind[order], kind="stable")][:count])


def joined(parts: list[Survivors]) -> Survivors:
    names = ("state", "fights", "parents", "words")
    return Survivors(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class Search:
    """The search for the draws of one recording."""

    def __init__(self, recording: Recording, seed: int = 0) -> None:
        self.recording = recording
        self.rng = np.random.default_rng(seed)
        self.world = SimWorld(TRIALS, contract="DharokEnv")

    def run(self) -> Draws:
        """Raises `AssertionError` with the entries that are never right."""
        self.world.reset(options={"seed": FIRST_SEED, **self.recording.reset_options})
        survivors = self._right(0, np.arange(TRIALS), np.zeros(TRIALS, np.uint32))
        assert len(survivors), self._complaint(0)
        history = [survivors.varied(KEPT, self.rng)]
        for t in range(1, self.recording.ticks + 1):
            history.append(self._tick(t, history[-1]))
        place, words = 0, []
        for survivors in reversed(history[1:]):
            words.append(survivors.words[place])
            place = survivors.parents[place]
        return Draws(FIRST_SEED + int(history[0].parents[place]), np.array(words[::-1], np.uint32))

    def _tick(self, t: int, last: Survivors) -> Survivors:
        found: list[Survivors] = []
        for done in range(MOST_ROUNDS):
            parents = self.rng.integers(0, len(last), TRIALS)
            self.world.state[:], self.world.fights[:] = last.state[parents], last.fights[parents]
            words = self.rng.integers(0, 2**32, TRIALS, np.uint32)
            play(self.world, self.recording, t, words)
            if done == 0 or self._near(t):
                found.append(self._right(t, parents, words))
            number = sum(map(len, found))
            if any(done >= rounds and number >= wanted for rounds, wanted in WANTED):
                break
        assert number, self._complaint(t)
        return joined(found).varied(KEPT, self.rng)

    def _near(self, t: int) -> bool:
        """Whether some trial is right in the entries that draws decide first."""
        seat = int(np.argmax(self.recording.obs_known[t]))
        seen, expected = self.world.obs[:, seat, _DECISIVE], self.recording.obs[t, seat, _DECISIVE]
        return bool((np.abs(seen - expected) < 1e-6).all(axis=1).any())

    def _right(self, t: int, parents: Ints, words: NDArray[np.uint32]) -> Survivors:
        right = np.ones(TRIALS, bool)
        for wrong in disagreements(self.recording, t, self.world).values():
            right &= ~wrong
        which = np.flatnonzero(right)
        return Survivors(self.world.state[which], self.world.fights[which], parents[which], words[which])

    def _complaint(self, t: int) -> str:
        never = [entry for entry, wrong in disagreements(self.recording, t, self.world).items() if wrong.all()]
        return f"{self.recording.name}, tick {t}: never right is {', '.join(never) or 'nothing alone'}"


def main() -> None:
    """Writes the recordings and their draws."""
    fights = []
    for path in sorted(Path(sys.argv[1]).glob("*.jsonl.gz")):
        recording = read_transcript(path)
        fights.append((recording, Search(recording).run()))
        print(f"{recording.name}: {recording.ticks} ticks", flush=True)
    save(FIGHTS, fights)


if __name__ == "__main__":
    main()
