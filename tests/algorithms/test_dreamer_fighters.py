"""Models of DreamerV3 wherever those of MaskablePPO are, with a state of their own."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th

import sb3_pvp
from sb3_pvp import load
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.algorithms.dreamer_files import DREAMER_FILES
from sb3_pvp.cli import main
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game.contract import load_contract
from sb3_pvp.matches.evaluation import evaluate_model
from sb3_pvp.matches.rating import play_matches
from sb3_pvp.matches.replay import Recording
from sb3_pvp.matches.replay.page import replay_page
from sb3_pvp.matches.replay.record import record_fight
from sb3_pvp.matches.replay.recording import recording_from_plain, recording_to_plain
from sb3_pvp.players.league import League, Player
from sb3_pvp.policies.files.description import Part
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent, strip
from sb3_pvp.policies.files.reading import read
from sb3_pvp.policies.files.registry import content_hash, name_of
from sb3_pvp.serving.fighters import Batch, ModelSource
from tests.policies.files.numbers_game import CONTRACT, GAME

TINY = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, image_blocks=4, bins=41)
SMALL: dict[str, Any] = {"policy_kwargs": {"size": TINY}, "batch_size": 2, "batch_length": 4, "train_ratio": 8}
SMALL |= {"imagined_steps": 3, "buffer_size": 1000, "device": "cpu", "seed": 0}
#: A part of an observation in a plain description.
PART: dict[str, Any] = {"shape": [3], "dtype": "float32", "low": None, "high": None}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip of a model of the numbers game, which raises on illegal actions."""
    made: Path = tmp_path_factory.mktemp("models") / "dreamer.zip"
    env = PvpVecEnv(2, game=GAME, opponent="any", seed=0)
    sb3_pvp.DreamerV3("MultiInputPolicy", env, **SMALL).learn(60).save(made)
    env.close()
    return made


def situations(count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return 3 * rng.random((3, count, 1, 3), np.float32), rng.random((3, count, 4)) < 0.5


def decide(opponent: Any, seen: Any, masks: Any, deterministic: bool = False, first_seed: int = 0) -> Any:
    """Three decisions of each row; odd rows begin anew at the third one."""
    rows = np.arange(len(seen[0])) + first_seed
    state, made = opponent.initial_state(rows.tolist()), []
    for number, (part, mask) in enumerate(zip(seen, masks, strict=True)):
        starts = np.full(len(rows), number == 0) | ((number == 2) & (rows % 2 == 1))
        actions, state = opponent.predict(part, state, starts, deterministic, mask)
        made.append(actions)
    return np.stack(made)


def test_a_zip_is_recognised_and_loaded_without_unpickling(path: Path, tmp_path: Path) -> None:
    assert DreamerV3 is sb3_pvp.DreamerV3
    models = [load(path, safe=safe) for safe in (False, True)]
    for safe, model in zip((False, True), models, strict=True):
        assert name_of(read(path, safe)) == "dreamerv3" == name_of(model)
        assert type(model) is DreamerV3 and model.game == GAME and model.num_timesteps == 60
    weights = [model.policy.state_dict() for model in models]
    assert all(th.equal(part, weights[1][name]) for name, part in weights[0].items())
    assert "privileged" not in models[0].policy.observed.signals
    stripped = Path(shutil.copy(path, tmp_path))
    strip(stripped)
    assert content_hash(read(path)) == content_hash(read(stripped))


def test_decisions_are_legal_and_of_each_row_alone(path: Path) -> None:
    opponent, (seen, masks) = load_opponent(path), situations(70)
    opponent.check(CONTRACT)
    sampled = decide(opponent, seen, masks)
    for actions, mask in zip(sampled, masks, strict=True):
        assert (mask[np.arange(70), actions[:, 0]] | (~mask.any(1) & (actions[:, 0] == 0))).all()
    others = [model_opponent(load(path)), load_opponent(path, safe=True), pickle.loads(pickle.dumps(opponent))]
    assert all(np.array_equal(sampled, decide(each, seen, masks)) for each in others)
    alone = [decide(opponent, seen[:, n : n + 1], masks[:, n : n + 1], first_seed=n) for n in range(70)]
    assert np.array_equal(np.concatenate(alone, 1), sampled)
    assert not np.array_equal(sampled, decide(opponent, seen, masks, first_seed=1000))


def test_an_opponent_acts_as_predict_does_with_its_state(path: Path) -> None:
    model, (seen, masks) = load(path), situations(40)
    opponent, state, carried, free = model_opponent(model), None, None, np.ones((40, 4), bool)
    state = opponent.initial_state(range(40))
    memories = []
    for number, part in enumerate(seen):
        starts = np.full(40, number == 0)
        actions, state = opponent.predict(part, state, starts, True, free)
        given = {"observation": part, "action_mask": free.astype(np.int8)}
        expected, carried = model.predict(given, carried, starts, deterministic=True)
        assert np.array_equal(actions, expected)
        raw, _ = model.predict(part, carried, starts, deterministic=True, action_masks=masks[number])
        allowed = masks[number].any(1)
        assert masks[number][np.arange(40), raw[:, 0]][allowed].all() and not raw[~allowed].any()
        memories.append(state[:, 2:])
    assert not np.array_equal(*memories[1:])


def test_drawn_as_the_probabilities_of_legal_entries(path: Path) -> None:
    model, mask = load(path), np.array([True, False, True, True])
    with th.no_grad():
        model.policy.networks.actor.heads.direct.bias[:] = th.tensor([0.0, 3.0, 1.0, 2.0])
        model.policy.networks.actor.heads.direct.weight.zero_()
    opponent, count = model_opponent(model), 20_000
    seen, masks = np.ones((1, count, 1, 3), np.float32), np.tile(mask, (1, count, 1))
    shares = np.bincount(decide(opponent, seen, masks)[0, :, 0], minlength=4) / count
    chances = np.exp([0.0, 3.0, 1.0, 2.0]) * mask
    assert np.allclose(shares, chances / chances.sum(), atol=0.02) and shares[1] == 0


def test_fought_evaluated_rated_and_recorded(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = PvpVecEnv(4, game=GAME, opponent=str(path), seed=1)
    assert evaluate_model(load(path), env, 8, deterministic=False).decided == 8
    env.close()
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(path), "--safe", "--opponent", str(path), "--game", GAME, "--episodes", "6", "--json"])
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    assert json.loads(output.out)["episodes"] == 6
    league, players = League(tmp_path / "league"), [Player("dreamer", 60), Player("any")]
    league.path(players[0]).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, league.path(players[0]))
    records = play_matches(league, {(players[0], players[1]): 4}, 0, FightSettings(game=GAME), jobs=1)
    assert len(records) == 4 and all(record.counted for record in records)


def test_many_heads_of_fights(tmp_path: Path) -> None:
    env = PvpVecEnv(2, game="NhEnv", opponent="baseline", seed=0)
    model = DreamerV3("MultiInputPolicy", env, **SMALL).learn(40)
    assert model.n_updates > 3 and model.game == "NhEnv"
    records = model.replay_buffer.records[: 2 * model.replay_buffer.counts.min()]
    sizes = env.get_attr("contract", [0])[0].head_sizes
    masks = records["observation/action_mask"][~records["is_last"]] > 0
    assert [name for name in records.dtype.names if name.startswith("action/")] == [
        f"action/action_{head:04}" for head in range(len(sizes))
    ]
    for head, own in enumerate(np.split(masks, np.cumsum(sizes)[:-1], 1)):
        chosen = records[f"action/action_{head:04}"][~records["is_last"], 0]
        assert (own[np.arange(len(chosen)), chosen] | (~own.any(1) & (chosen == 0))).all()
    env.close()
    model.save(tmp_path / "nh.zip")
    strip(tmp_path / "nh.zip")
    recording = record_fight(str(tmp_path / "nh.zip"), "baseline", max_episode_ticks=20)
    assert recording.game is None and len(recording.moments) > 10
    look_ahead(recording)
    served = ModelSource(tmp_path / "nh.zip", "auto", "cpu").open()
    assert served.form.is_stateful and served.form.head_sizes == sizes
    nothing, states = np.zeros(0, np.int64), [None] * 64
    for _ in range(2):
        seen, legal = np.ones((64, 1, served.form.num_features), np.float32), np.ones((64, sum(sizes)), bool)
        answers = served.answer(
            Batch(seen, legal, np.full((64, len(sizes)), 0.5, np.float32), False, nothing, None, nothing, states)
        )
        assert answers.decisions.actions.shape == (64, len(sizes)) and not np.array_equal(states, answers.states)
        states = [*answers.states]
    env = PvpVecEnv(2, game="NhEnv", opponent=str(tmp_path / "nh.zip"), seed=1)
    assert evaluate_model(load(tmp_path / "nh.zip", safe=True), env, 2, deterministic=False).decided == 2
    env.close()


def look_ahead(recording: Recording) -> None:
    """What it expects of the next ten ticks is recorded, beside what it saw, and is in the page's data."""
    ids = [each.id for each in load_contract("NhEnv").observations]
    *views, last = [moment.outlooks[0] for moment in recording.moments]
    assert last is None and all(moment.outlooks[1] is None for moment in recording.moments)
    for view in views:
        assert view is not None and view.future is not None
        future = view.future
        assert len(future.rewards) == len(future.goes_on) == 10 and 1 > future.goes_on[0] > future.goes_on[-1] > 0
        assert (
            len(future.seen) == 6 and {*future.seen} <= {*ids} and {len(part) for part in future.seen.values()} == {11}
        )
    save = recording_from_plain(json.loads(json.dumps(recording_to_plain(recording))))
    assert save.moments[3].outlooks[0] is not None and save.moments[3].outlooks[0].future is not None
    assert "future" in replay_page(recording) and '"goes_on"' in replay_page(recording)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"observation": {"observation": PART | {"shape": [2_000_000_000]}}}, "more than 4194304 numbers in an obs"),
        ({"observation": {key: PART | {"shape": [3, 1 << 20]} for key in "ab"}}, "more than 4194304 numbers in an obs"),
        ({"size": asdict(TINY) | {"layers": 1000}}, "more than 1024 layers"),
        ({"size": asdict(TINY) | {"head_layers": 1 << 16}}, "more than 1024 layers"),
        ({"size": asdict(TINY) | {"prior_layers": 500, "posterior_layers": 600}}, "more than 1024 layers"),
        ({"head_sizes": [1, 2] * 200}, "more than 256 heads"),
        ({"head_sizes": [1 << 12, 1 << 12], "is_fighter": True}, "needs more weights than there are in the file"),
    ],
)
def test_nothing_is_built_of_a_description_that_is_too_large(
    changed: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def space(part: Part) -> Any:
        raise AssertionError("it builds a space")

    monkeypatch.setattr(Part, "space", space)
    plain = {"observation": {"observation": PART}, "is_dict": False, "head_sizes": [2], "is_discrete": True}
    with pytest.raises(ValueError, match=words) as error:
        DREAMER_FILES.build({"description": plain | {"size": asdict(TINY)} | changed}, {}, "cpu")
    assert "\n" not in str(error.value)


def test_what_does_not_fit_is_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    def refusal(opponent: Any, game: str = GAME, **given: Any) -> str:
        with pytest.raises(ValueError) as error:
            load(opponent, safe=True) if isinstance(opponent, Path) else PvpVecEnv(2, game=game, opponent=opponent)
        assert "\n" not in str(error.value)
        return str(error.value)

    def changed(**values: Any) -> Path:
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "changed.zip", "w") as new:
            for entry in old.infolist():
                content = old.read(entry)
                if entry.filename == "data":
                    data = json.loads(content)
                    data["description"] |= values
                    content = json.dumps(data).encode()
                new.writestr(entry, content)
        return tmp_path / "changed.zip"

    size = json.loads(zipfile.ZipFile(path).read("data"))["description"]["size"]
    assert "was trained in another game" in refusal(str(path), "NhEnv")
    assert "must be Discrete or MultiDiscrete" in refusal(DreamerV3("MlpPolicy", "Pendulum-v1", **SMALL))
    assert "its networks are of another size" in refusal(changed(size=size | {"deter": 32}))
    assert "its description is too large" in refusal(changed(size=size | {"units": 1 << 40}))
    assert "its description is wrong" in refusal(changed(size="large"))
    sees_all = DreamerV3("MultiInputPolicy", PvpVecEnv(1, game="NhEnv", opponent="baseline"), **SMALL | {
        "policy_kwargs": {"size": TINY, "mlp_keys": ".*"}
    })  # fmt: skip
    assert "not a Box of features" in refusal(sees_all, "NhEnv")
    with pytest.raises(ValueError, match="an observation of an opponent is NaN"):
        decide(load_opponent(path), np.full((1, 2, 1, 3), np.nan, np.float32), np.ones((1, 2, 4), bool))
    DreamerV3("MlpPolicy", gym.make("Pendulum-v1"), **SMALL).save(tmp_path / "numbers.zip")
    assert "no plain description" in refusal(tmp_path / "numbers.zip")
