"""Fighter files and safe loading: the same model, no code of the file, and one clear error for a bad file."""

from __future__ import annotations

import copy
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO, load
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.description import describe, read_description
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.files.model_files import game_of, load_opponent, model_opponent, steps_of
from sb3_pvp.policies.files.reading import packed_tensors
from sb3_pvp.policies.files.reading import read as read_file
from sb3_pvp.policies.files.registry import ModelOpponent, algorithm_of
from sb3_pvp.policies.outcome_predictor import OutcomePredictor
from sb3_pvp.policies.sampling import act_batched
from tests.policies.export.exported import SHAPES, Fights, poisoned, stock, trained, with_entries


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[PvpPPO, Path, Path]]:
    """Models of all shapes, each with its zip and its fighter file."""
    folder, made = tmp_path_factory.mktemp("models"), {}
    for shape in SHAPES:
        model, path = trained(shape), folder / f"{shape}.zip"
        model.outcome_predictor = OutcomePredictor(model.observation_space["observation"].shape, seed=1)
        model.save(path)
        export_fighter(model, path.with_suffix(".fighter"), onnx=False)
        made[shape] = model, path, path.with_suffix(".fighter")
    return made


@pytest.fixture(scope="module")
def small(models: dict[str, tuple[PvpPPO, Path, Path]]) -> tuple[Path, Path]:
    return models["plain heads"][1:]


def same_decisions(model: MaskablePPO, other: MaskablePPO, fights: Fights) -> None:
    """Bitwise equal actions, most likely and sampled, and values."""
    for deterministic in (True, False):
        drawn = []
        for each in (model, other):
            th.manual_seed(1)
            drawn.append(each.predict(fights.parts, deterministic=deterministic)[0])
        np.testing.assert_array_equal(*drawn)
    with th.no_grad():
        values = [each.policy.predict_values(each.policy.obs_to_tensor(fights.parts)[0]) for each in (model, other)]
    assert th.equal(*values)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loaded_fighter_decides_bitwise_the_same(
    models: dict[str, tuple[PvpPPO, Path, Path]], shape: str, tmp_path: Path
) -> None:
    model, path, exported = models[shape]
    fights = Fights(NhVecEnv(8, frame_ages=SHAPES[shape][1]), 8)
    random_state = th.get_rng_state()
    ways = [load(path), load(exported), load(path, safe=True)]
    assert th.equal(th.get_rng_state(), random_state)
    for other in ways[1:]:
        same_decisions(ways[0], other, fights)
        assert other.num_timesteps == model.num_timesteps == steps_of(exported)
        assert (other.observation_space, other.action_space) == (model.observation_space, model.action_space)
        assert (other.game, other.frame_ages) == ("NhEnv", model.frame_ages) and game_of(other).name == "NhEnv"
    given = fights.parts["observation"]
    np.testing.assert_array_equal(
        ways[0].outcome_predictor.predict(given)["WIN"], ways[1].outcome_predictor.predict(given)["WIN"]
    )
    ways[1].save(tmp_path / "again.zip")  # a fighter can be an SB3 zip again
    same_decisions(ways[0], MaskablePPO.load(tmp_path / "again.zip"), fights)
    export_fighter(ways[1], tmp_path / "again.fighter", onnx=False)
    assert (tmp_path / "again.fighter").read_bytes() == exported.read_bytes()


@pytest.mark.parametrize("shape", ["deep heads", "independent heads"])
def test_opponents_of_all_files_decide_the_same(models: dict[str, tuple[PvpPPO, Path, Path]], shape: str) -> None:
    _, path, exported = models[shape]
    fights = Fights(NhVecEnv(8, frame_ages=SHAPES[shape][1]), 4)
    uniforms = th.rand(len(fights.masks), 12)
    seen = th.from_numpy(fights.parts["observation"])
    actions = [
        act_batched([opponent.actor], [seen], th.from_numpy(fights.masks), uniforms)
        for opponent in (load_opponent(path), load_opponent(exported), load_opponent(path, safe=True))
    ]
    assert th.equal(actions[0], actions[1]) and th.equal(actions[0], actions[2])
    assert load_opponent(exported).frame_ages == SHAPES[shape][1]


@pytest.mark.parametrize("policy", ["MlpPolicy", "MultiInputPolicy"])
def test_stock_policies_can_be_exported(policy: str, tmp_path: Path) -> None:
    model = stock(policy)
    model.save(tmp_path / "stock.zip")
    with pytest.raises(ValueError, match=r"sb3-pvp export .*stock.zip"):
        load(tmp_path / "stock.zip", safe=True)
    export_fighter(model, tmp_path / "stock.fighter", onnx=False)
    loaded, fights = load(tmp_path / "stock.fighter"), Fights(NhVecEnv(4), 3)
    seen: Any = fights.parts["observation"][:, 0] if policy == "MlpPolicy" else fights.parts
    for deterministic in (True, False):
        drawn = []
        for each in (model, loaded):
            th.manual_seed(1)
            drawn.append(each.predict(seen, deterministic=deterministic, action_masks=fights.masks)[0])
        np.testing.assert_array_equal(*drawn)


def test_policies_that_plain_values_cannot_describe_are_refused(tmp_path: Path) -> None:
    class Own(AutoregressivePolicy):
        pass

    env = NhVecEnv(1)
    own = PvpPPO(Own, env, n_steps=2, batch_size=2)
    with pytest.raises(ValueError, match="a Own cannot be described in plain values"):
        export_fighter(own, tmp_path / "own.fighter")
    assert not [*tmp_path.iterdir()]
    own.save(tmp_path / "own.zip")  # which still works
    with pytest.raises(ValueError, match="sb3-pvp export"):
        load(tmp_path / "own.zip", safe=True)
    elu = {"activation_fn": th.nn.ELU}
    plain = MaskablePPO("MultiInputPolicy", env, n_steps=2, batch_size=2, policy_kwargs=elu)
    with pytest.raises(ValueError, match="the activation ELU is none of relu, tanh, gelu"):
        describe(plain)
    own_space = MaskablePPO("MultiInputPolicy", env, n_steps=2, batch_size=2)
    own_space.observation_space = spaces.Box(0, 1, (2,), np.float16)
    with pytest.raises(ValueError, match="the model cannot be described in plain values: dtype") as error:
        describe(own_space)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"ends in \.fighter, not 'fighter.zip'"):
        export_fighter(own, tmp_path / "fighter.zip")


def test_the_space_of_observations_is_rebuilt_in_its_order_and_with_its_limits() -> None:
    parts = [("z", spaces.Box(0, 3, (2,), np.int8)), ("a", spaces.Box(np.array([0, -np.inf], np.float32), 5.0))]
    space = spaces.Dict(parts)
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2)
    model.observation_space = space
    described = read_description(json.loads(json.dumps(describe(model).plain())))
    assert described.observation_space == space and [*described.observation_space] == ["z", "a"]


POISONS = ["policy_class", "clip_range", "training_state", "policy.optimizer.pth", "pytorch_variables.pth", "other.pkl"]


@pytest.mark.parametrize("place", POISONS)
def test_no_pickle_runs_in_safe_mode(small: tuple[Path, Path], place: str, tmp_path: Path) -> None:
    evil = poisoned(small[0], tmp_path / "done", place, tmp_path / "evil.zip")
    assert load(evil, safe=True).num_timesteps == 512
    assert load_opponent(evil, safe=True).game == "NhEnv"
    assert not (tmp_path / "done").exists()
    if place == "policy_class":  # the poison works
        with pytest.raises(ValueError):
            load(evil)
        assert (tmp_path / "done").is_dir()


def test_weights_that_are_a_pickle_are_refused(small: tuple[Path, Path], tmp_path: Path) -> None:
    evil = poisoned(small[0], tmp_path / "done", "policy.pth", tmp_path / "evil.zip")
    with pytest.raises(ValueError, match="evil.zip cannot be read safely|not a model"):
        load(evil, safe=True)
    # as torch saves them
    with zipfile.ZipFile(small[0]) as file:
        (tmp_path / "policy.pth").write_bytes(file.read("policy.pth"))
    poisoned(tmp_path / "policy.pth", tmp_path / "done", "policy/data.pkl", tmp_path / "bad.pth")
    evil = with_entries(small[0], {"policy.pth": (tmp_path / "bad.pth").read_bytes()}, tmp_path / "evil.zip")
    with pytest.raises(ValueError, match="could run code"):
        load(evil, safe=True)
    evil.rename(tmp_path / "evil.fighter")
    with pytest.raises(ValueError, match="its entry 'data' is unknown"):
        load(tmp_path / "evil.fighter")
    assert not (tmp_path / "done").exists()


def test_a_game_that_a_file_names_is_not_imported(
    small: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_game.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    model = load(small[1])
    model.game = "evil_game:Game"
    export_fighter(model, tmp_path / "evil.fighter", onnx=False)
    loaded = load(tmp_path / "evil.fighter")
    with pytest.raises(ValueError, match="pass --game evil_game:Game"):
        game_of(loaded)
    loaded.save(tmp_path / "evil.zip")  # as best responses do
    with pytest.raises(ValueError, match="pass --game evil_game:Game"):
        game_of(load(tmp_path / "evil.zip"))


def changed(**values: Any) -> Callable[[bytes], bytes]:
    """A change of fighter.json; a key with dots is a path."""

    def change(content: bytes) -> bytes:
        about = json.loads(content)
        for path, value in values.items():
            *parents, last = [int(part) if part.isdigit() else part for part in path.split("__")]
            place = about
            for parent in parents:
                place = place[parent]
            place[last] = value
        return json.dumps(about).encode()

    return change


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a flipped bit": ({"policy.safetensors": lambda old: old[:-1] + bytes([old[-1] ^ 1])}, "changed or damaged"),
    "no weights": ({"policy.safetensors": None}, "'policy.safetensors' is missing"),
    "no description": ({"fighter.json": None}, "it has no fighter.json"),
    "another entry": ({"script.py": b"evil"}, "'script.py' is unknown"),
    "an entry without a hash": ({"actor.onnx": b"graph"}, "'actor.onnx' is not in fighter.json"),
    "no JSON": ({"fighter.json": b"{"}, "Expecting"),
    "deep JSON": ({"fighter.json": b"[" * 500_000}, "recursion"),
    "huge JSON": ({"fighter.json": b" " * (1 << 21)}, "larger than"),
    "a later format": ({"fighter.json": changed(format=5)}, "format 5 is newer than 4.*upgrade sb3_pvp"),
    "no format": ({"fighter.json": changed(format="1")}, "lacks the number of the format"),
    "an unknown field": ({"fighter.json": changed(description__headz=[])}, "unknown field 'headz'.*'heads'"),
    "a text as number": ({"fighter.json": changed(description__steps="many")}, "steps"),
    "other heads": ({"fighter.json": changed(description__head_sizes=[4, 3])}, "does not have 7 entries"),
    "a huge layer": ({"fighter.json": changed(description__actor=[{"size": 10**9}])}, "needs more weights"),
    "many layers": ({"fighter.json": changed(description__critic=[{"size": 500}] * 9)}, "needs more weights"),
    "a repeated layer": ({"fighter.json": changed(description__actor__0__repeat=10**9)}, "repeated"),
    "another layer": ({"fighter.json": changed(description__actor__1={"size": 31})}, "do not fit its description"),
    "huge frames": (
        {"fighter.json": changed(description__observation__observation__shape=[10**9, 176])},
        "it has more than 4194304 numbers in an observation",
    ),
    "huge planes": (
        {
            "fighter.json": changed(
                description__observation__observation__shape=[10**5, 10**5, 3],
                description__features_extractor="NatureCNN",
            )
        },
        "it has more than 4194304 numbers in an observation",
    ),
    "many blocks": (
        {
            "fighter.json": changed(
                description__observation__observation__shape=[1, 16, 11],
                description__features_extractor="ResidualPlanes",
                description__features_extractor_kwargs={"channels": 1, "blocks": 3000},
            )
        },
        "at most 1024 blocks",
    ),
    "huge numbers of an extractor": (
        {
            "fighter.json": changed(
                description__features_extractor="CombinedExtractor",
                description__features_extractor_kwargs={"any": {"thing": [1, -(10**30)]}},
            )
        },
        "it has more than 65536 in an argument of its features extractor",
    ),
    "an old frame": ({"fighter.json": changed(description__frame_ages=[10**9])}, "an age in ticks from 0 to 255"),
    "many heads": ({"fighter.json": changed(description__head_sizes=[1] * 300)}, "it has more than 256 heads"),
    "a wide head": ({"fighter.json": changed(description__head_sizes=[9000])}, "it has more than 8192 entries"),
    "many activations": (
        {"fighter.json": changed(description__actor=[{"activation": "relu"}] * 2000)},
        "it has more than 1024 layers",
    ),
    "another contract": (
        {"fighter.json": changed(description__contract__sha256="0")},
        "another version of the contract NhEnv",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_fighter_file_is_one_clear_error(small: tuple[Path, Path], name: str, tmp_path: Path) -> None:
    changes, message = BAD[name]
    bad = with_entries(small[1], changes, tmp_path / "bad.fighter")
    for read in (load, load_opponent):
        with pytest.raises(ValueError, match="bad.fighter") as error:
            read(bad)
        assert "\n" not in str(error.value)
        assert re.search(message, str(error.value)) or (read is not load and name == "another layer")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_one_clear_error(small: tuple[Path, Path], share: float, tmp_path: Path) -> None:
    for path in small:
        content = path.read_bytes()
        cut = tmp_path / f"cut{path.suffix}"
        cut.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match="cannot be read safely: it is"):
            load(cut, safe=True)


def test_compressed_entries_are_refused(small: tuple[Path, Path], tmp_path: Path) -> None:
    for path in small:
        bomb = tmp_path / f"bomb{path.suffix}"
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        with pytest.raises(ValueError, match="is compressed, which could hide any amount of data"):
            load(bomb, safe=True)


def test_entries_at_the_same_place_are_refused(small: tuple[Path, Path], tmp_path: Path) -> None:
    """As a few bytes for each of them would otherwise be any amount of memory."""
    evil = Path(shutil.copy(small[0], tmp_path / "evil.zip"))
    with zipfile.ZipFile(evil, "a") as file:
        for number in range(100):
            again = copy.copy(file.getinfo("policy.pth"))
            again.filename = f"{number}.pth"
            file.filelist.append(again)
        file.writestr("last", b"")
    with pytest.raises(ValueError, match="its entries overlap"):
        load(evil, safe=True)
    inner = io.BytesIO(read_file(small[0]).entries["policy.pth"])
    with zipfile.ZipFile(inner, "a") as file:
        largest = max(file.infolist(), key=lambda each: each.file_size)
        for number in range(100):
            again = copy.copy(largest)
            again.filename = f"policy/data/again{number}"
            file.filelist.append(again)
        file.writestr("last", b"")
    with pytest.raises(ValueError, match="its entries overlap"):
        load(with_entries(small[0], {"policy.pth": inner.getvalue()}, evil), safe=True)


def test_weights_that_repeat_one_number_are_refused(small: tuple[Path, Path], tmp_path: Path) -> None:
    """As computing with them would take any amount of memory."""
    weights = read_file(small[0], safe=True).weights() | {"weight": th.zeros(1).expand(1 << 20)}
    evil = with_entries(small[0], {"policy.pth": packed_tensors(weights)}, tmp_path / "evil.zip")
    with pytest.raises(ValueError, match="its tensor 'weight' is larger than the file"):
        load_opponent(evil, safe=True)


def test_a_broken_outcome_predictor_is_an_error(small: tuple[Path, Path]) -> None:
    tensors = safetensors.torch.load(read_file(small[1]).entries["outcome_predictor.safetensors"])
    for change in ({"shape": th.tensor([2, 176])}, {"mean": th.zeros(3)}, {"0.weight": th.zeros(3, 3)}):
        with pytest.raises(ValueError, match="the outcome predictor is malformed"):
            OutcomePredictor.from_tensors(tensors | change)
    with pytest.raises(ValueError, match="malformed"):
        OutcomePredictor.from_tensors({})


@pytest.mark.parametrize("ages", [[10**9], [-1], ["0"], 0])
def test_frames_of_an_opponent_have_limits_in_files_of_any_algorithm(ages: Any) -> None:
    both = spaces.Box(-1, 1, (1, 3)), spaces.MultiDiscrete([2])
    assert ModelOpponent(both, "", [255], None).frame_ages == (255,)
    with pytest.raises(ValueError, match="frame_ages must be .* of at most 255"):
        ModelOpponent(both, "", ages, None)


def test_an_opponent_of_nan_is_refused(small: tuple[Path, Path], tmp_path: Path) -> None:
    model, broken = PvpPPO.load(small[0]), tmp_path / "broken.zip"
    model.policy.action_net.direct.bias.data[-1] = np.nan
    model.save(broken)
    export_fighter(model, broken.with_suffix(".fighter"), onnx=False)
    for path, safe in ((broken, False), (broken, True), (broken.with_suffix(".fighter"), True)):
        with pytest.raises(ValueError, match="broken.* cannot be an opponent: its weight .*bias' is NaN"):
            load_opponent(path, safe)
    with pytest.raises(ValueError, match="PvpPPO cannot be an opponent: its weight .* is NaN"):
        model_opponent(model)


@pytest.mark.parametrize("kind", ["own", "stock"])
def test_an_opponent_that_computes_nan_is_an_error(kind: str, small: tuple[Path, Path]) -> None:
    """As of the policy itself, also where all weights are numbers."""
    opponent = load_opponent(small[1]) if kind == "own" else model_opponent(stock("MultiInputPolicy"))
    seen, masks = np.zeros((2, 1, 176), np.float32), np.ones((2, 45), bool)
    state, flags = opponent.initial_state(range(2)), np.zeros(2, bool)
    opponent.predict(seen, state, flags, True, masks)
    seen[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="a weight of an opponent is NaN" if kind == "own" else "nan"):
        opponent.predict(seen, state, flags, True, masks)


@pytest.mark.parametrize("safe", [False, True])
def test_a_file_is_opened_once(small: tuple[Path, Path], safe: bool, tmp_path: Path) -> None:
    for path in small:
        copied = Path(shutil.copy(path, tmp_path))
        file = read_file(copied, safe)
        copied.unlink()
        assert algorithm_of(file).load(file).num_timesteps == 512
        assert algorithm_of(file).opponent(file) is load_opponent(path, safe)


def test_training_needs_the_zip(small: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="for inference only"):
        PvpPPO.load(small[1])
    assert "description" not in vars(PvpPPO.load(small[0]))


def test_nothing_is_unpickled_from_the_content_of_a_zip_either(small: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="pass the path of its file"):
        load(io.BytesIO(small[0].read_bytes()), safe=True)


def test_whatever_a_reader_raises_is_one_error(small: tuple[Path, Path], tmp_path: Path) -> None:
    """A zip without its beginning has entries at negative places, of which the file system says "Invalid argument"."""
    for path in small:
        (cut := tmp_path / path.name).write_bytes(path.read_bytes()[10:])
        for read in (lambda path: load(path, safe=True), steps_of, lambda path: load_opponent(path, safe=True)):
            with pytest.raises(ValueError) as raised:
                read(cut)
            assert str(cut) in str(raised.value) and "\n" not in str(raised.value)
    with zipfile.ZipFile(small[0]) as file:
        data = json.loads(file.read("data"))
    for steps in ([], None, "many", -1):
        with zipfile.ZipFile(tmp_path / "odd.zip", "w") as file:
            file.writestr("data", json.dumps(data | {"num_timesteps": steps}))
        with pytest.raises(ValueError, match="odd.zip is not a model"):
            steps_of(tmp_path / "odd.zip")
