"""DreamerV3 equals the original: every array of golden.npz, parameter counts of all sizes, initial weights."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch as th

from sb3_pvp.algorithms.dreamer.distributions import Draws, symexp_bins, two_hot_mean
from sb3_pvp.algorithms.dreamer.losses import LossSettings, ReturnScale, Sequences, dreamer_losses, lambda_returns
from sb3_pvp.algorithms.dreamer.signals import Signal
from sb3_pvp.algorithms.dreamer.sizes import SIZES, ModelSize, model_size
from sb3_pvp.algorithms.dreamer.world_model import DreamerNetworks, Latent
from tests.algorithms.dreamer_formulas import dense_two_hot, is_input, recompute
from tests.algorithms.dreamer_reference import (
    CASES,
    MODULES,
    Arrays,
    changed,
    differing,
    file_of,
    our_layout,
    our_name,
    read_golden,
)

PARTS = ("unit", *CASES)
#: Observations and actions of param_counts.json.
SPACES: dict[str, tuple[dict[str, Signal], dict[str, Signal]]] = {
    "vec6_disc3": ({"vector": Signal(6)}, {"action": Signal(1, 3)}),
    "vec4_disc2 (CartPole-v1)": ({"vector": Signal(4)}, {"action": Signal(1, 2)}),
    "vec24_cont6": ({"vector": Signal(24)}, {"action": Signal(6)}),
    "image64x64x3_disc17 (crafter)": ({"image": Signal(0, image=(64, 64, 3))}, {"action": Signal(1, 17)}),
    "image64x64x3+vec6_disc3": (
        {"image": Signal(0, image=(64, 64, 3)), "vector": Signal(6)},
        {"action": Signal(1, 3)},
    ),
}


@pytest.fixture(autouse=True)
def as_the_original_rounds() -> Iterator[None]:
    """The original's numbers were made where the smallest floats are 0.

    The mean square of a gradient of 3e-18 then is 0, and what divides it the optimiser's epsilon alone, so that such a
    weight moves 338 times as far as any other; `update_rms` shows it.
    """
    th.set_flush_denormal(True)
    yield
    th.set_flush_denormal(False)


@pytest.fixture(scope="module")
def golden() -> Arrays:
    return read_golden()


@pytest.mark.parametrize("part", PARTS)
def test_every_array_is_computed_as_in_the_original(golden: Arrays, part: str) -> None:
    results = recompute(golden, part)
    named = {name for name in golden if name.startswith(f"{part}/")}
    assert set(results) == {name for name in named if not is_input(name)}
    assert not differing(results, golden)


@pytest.mark.parametrize("part", PARTS)
def test_any_result_changed_by_one_percent_is_noticed(golden: Arrays, part: str) -> None:
    results = recompute(golden, part)
    for name in results:
        assert name in differing({name: results[name]}, {**golden, name: changed(golden[name])})


@pytest.mark.parametrize("part", ["unit", *(pytest.param(each, marks=pytest.mark.slow) for each in CASES)])
def test_any_input_changed_by_one_percent_is_noticed(golden: Arrays, part: str) -> None:
    inputs = [name for name in golden if name.startswith(f"{part}/") and is_input(name)]
    assert len(inputs) > 50
    # Two do not count, rightly: a straight-through gradient does not depend on what was drawn, and actions of 1 and
    # more are divided by how large they are.
    inputs = [name for name in inputs if name not in ("unit/st/index", "unit/core/action")]
    for name in inputs:
        later = "/sample/" in name and "/step0/" not in name
        others = {**golden, name: changed(golden[name])}
        assert differing(recompute(others, part, all_steps=later), others), name


def test_other_numbers_are_read_from_the_folder_that_is_named(
    golden: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SB3_PVP_GOLDEN", str(tmp_path))
    beside = file_of("golden.npz")
    np.savez(tmp_path / "golden.npz", **(golden | {"unit/symlog/y": changed(golden["unit/symlog/y"])}))
    assert file_of("golden.npz") == tmp_path / "golden.npz" != beside
    assert list(differing(recompute(read_golden(), "unit"), read_golden())) == ["unit/symlog/y"]
    assert file_of("param_counts.json").parent == beside.parent


# -- sizes and initial weights


@pytest.mark.parametrize("space", SPACES)
def test_sizes_have_as_many_parameters_as_in_the_original(space: str) -> None:
    counts = json.loads(file_of("param_counts.json").read_text())[space]
    sizes = [name for name in counts if not name.endswith("_shapes")]
    assert len(sizes) == 7
    for name in sizes:
        with th.device("meta"):
            networks = DreamerNetworks(*SPACES[space], model_size(name))
        found = {theirs: count_of(getattr(networks, ours)) for theirs, ours in MODULES.items()}
        assert {**found, "total_trained": sum(p.numel() for p in networks.trained())} == counts[name]


def count_of(module: th.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_weights_have_the_shapes_of_the_original() -> None:
    for space, signals in SPACES.items():
        shapes = json.loads(file_of("param_counts.json").read_text())[space]["size1m_shapes"]
        with th.device("meta"):
            networks = DreamerNetworks(*signals, SIZES["size1m"])
        ours = {name: tuple(p.shape) for name, p in networks.named_parameters() if p.requires_grad}
        empty = {name: np.empty(shape) for name, shape in shapes.items() if not name.startswith("slowval/")}
        assert ours == {our_name(name): our_layout(name, array).shape for name, array in empty.items()}


def test_the_sizes_of_2023_have_their_widths() -> None:
    counts = {}
    for name in ("debug", "XS", "small", "medium", "large", "xlarge"):
        with th.device("meta"):
            counts[name] = sum(p.numel() for p in DreamerNetworks(*SPACES["vec6_disc3"], SIZES[name]).trained())
    assert list(counts.values()) == sorted(counts.values())
    assert (SIZES["small"].deter, SIZES["xlarge"].units, SIZES["xlarge"].stoch) == (512, 1024, 32)


def test_weights_start_as_in_the_original() -> None:
    th.manual_seed(0)
    (statistics,) = json.loads(file_of("init_stats.json").read_text()).values()
    weights = dict(DreamerNetworks(*SPACES["image64x64x3+vec6_disc3"], SIZES["size1m"]).named_parameters())
    assert len(statistics) > 100
    for name, theirs in statistics.items():
        ours = weights[our_name(name)].detach()
        # Both are random: ten standard errors of a standard deviation, and no more than they can be.
        error = 10 * theirs["std"] / math.sqrt(2 * ours.numel())
        assert ours.std(correction=0).item() == pytest.approx(theirs["std"], abs=error), name
        assert ours.mean().item() == pytest.approx(theirs["mean"], abs=2 * error), name
        assert ours.abs().max() <= 2.28 / 0.88 * max(theirs["std"], 1e-9) + theirs["mean"] ** 2 + error, name


def test_unknown_sizes_name_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'size12m'"):
        model_size("size12")
    with pytest.raises(ValueError, match="deter must be a multiple"):
        ModelSize(deter=30, hidden=8, units=8, classes=4, depth=2)
    with pytest.raises(ValueError, match="sides of 48, 64"):
        DreamerNetworks({"image": Signal(0, image=(60, 60, 3))}, {"action": Signal(1, 2)}, SIZES["debug"])


# -- by hand


def test_the_losses_of_a_world_without_knowledge_by_hand() -> None:
    """All outputs are 0: one reward of 1 at the end of an episode of two steps, seen as one number and two actions."""
    size = ModelSize(deter=8, hidden=4, units=4, classes=2, depth=2, stoch=2, blocks=2)
    networks = DreamerNetworks({"seen": Signal(1)}, {"action": Signal(1, 2)}, size)
    for parameter in networks.parameters():
        parameter.data.zero_()
    flags = {"is_first": [True, False], "is_last": [False, True], "is_terminal": [False, True]}
    batch = Sequences(
        observations={"seen": th.tensor([[[0.0], [math.e - 1]]])},
        actions=th.zeros(1, 2, 2),
        rewards=th.tensor([[0.0, 1.0]]),
        start=Latent(th.zeros(1, 8), th.zeros(1, 2, 2)),
        **{name: th.tensor([values]) for name, values in flags.items()},
    )
    settings = LossSettings(gamma=0.9, imagined_steps=1, ent_coef=0.5)
    losses = dreamer_losses(networks, batch, ReturnScale(), settings, Draws())

    even = math.log(255)  # the cross-entropy of any target, to 255 bins of one weight
    coin = math.log(2)
    expected = {
        "seen": [0.0, 1.0],  # symlog(e - 1) is 1, and 0 was expected
        "rew": [even, even],
        "con": [coin, coin],
        "dyn": [1.0, 1.0],  # nothing is unexpected, and one nat is free
        "rep": [1.0, 1.0],
        # No reward and no value: no advantage. Only entropy counts, half as much where the episode may be over.
        "policy": [-0.5 * 0.5 * coin] * 2,
        "value": [0.5 * 2 * even] * 2,
        "repval": [2 * even],
    }
    assert set(losses.parts) == set(expected)
    for name, values in expected.items():
        assert losses.parts[name].flatten().tolist() == pytest.approx(values, abs=1e-5), name
    # The real reward is known, and nothing comes after it.
    assert losses.replay_returns.tolist() == [[1.0]]
    mean = 0.5 + even + coin + 1 + 0.1 - 0.25 * coin + even + 0.3 * 2 * even
    assert losses.total(settings.scales).item() == pytest.approx(mean, abs=1e-5)


def test_returns_by_hand() -> None:
    rewards, live, values = (th.tensor([row]) for row in ([9.0, 1.0, 2.0], [9.0, 0.5, 0.5], [9.0, 10.0, 20.0]))
    # From the end: 2 + 0.5 * 20 = 12, then 1 + 0.5 * (0.25 * 10 + 0.75 * 12) = 6.75.
    assert lambda_returns(rewards, live, values, 0.75).tolist() == [[6.75, 12.0]]
    # Where the sequence breaks off, the value there alone counts: 1 + 0.5 * 10.
    breaks_off = th.tensor([[False, True, False]])
    assert lambda_returns(rewards, live, values, 0.75, breaks_off).tolist() == [[6.0, 12.0]]


def test_two_hot_weights_give_the_number_back() -> None:
    bins = symexp_bins(255)
    numbers = th.tensor([-1000.0, -1.0, 0.0, 0.3, 1.0, 77.7, 1e6])
    weights = dense_two_hot(numbers, bins)
    assert ((weights > 0).sum(-1) <= 2).all()
    assert two_hot_mean(weights.clamp(min=1e-30).log()).tolist() == pytest.approx(numbers.tolist(), rel=1e-3, abs=1e-3)
