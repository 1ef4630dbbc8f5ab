"""Memories: a tick after the other they compute what they compute over sequences, and nothing crosses episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO

from sb3_pvp.callbacks import ExpertIterationCallback
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.players.search.opponent import network_of
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.memory import EpisodeMemory, MemorySettings, Remembered, packed_states, unpacked_states
from tests.policies.remembering import KINDS, remembering_model

INPUTS = 7
MEMORIES = st.builds(
    lambda kind, heads, width, ticks: (
        {"kind": kind, "size": 16 * width} | ({"heads": heads, "ticks": ticks} if kind == "attention" else {})
    ),
    st.sampled_from([*KINDS]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 3),
    st.integers(2, 9),
)


def made(given: dict[str, Any], seed: int = 0) -> EpisodeMemory:
    th.manual_seed(seed)
    return MemorySettings(**given).make(INPUTS)


@th.no_grad()
def tick_by_tick(
    memory: EpisodeMemory, features: th.Tensor, state: th.Tensor, starts: th.Tensor
) -> tuple[th.Tensor, th.Tensor]:
    outputs = []
    for seen, begin in zip(features, starts, strict=True):
        output, state = memory.step(seen, state, begin)
        outputs.append(output)
    return th.stack(outputs), state


@settings(deadline=None, max_examples=80)
@given(MEMORIES, st.integers(1, 24), st.integers(1, 5), st.integers(0, 12), st.floats(0, 0.6), st.integers(0, 999))
def test_a_sequence_is_its_ticks(
    given: dict[str, Any], ticks: int, rows: int, before: int, often: float, seed: int
) -> None:
    memory = made(given, seed)
    features, starts = th.randn(before + ticks, rows, INPUTS), th.rand(before + ticks, rows) < often
    _, state = (
        tick_by_tick(memory, features[:before], memory.initial(rows), starts[:before])
        if before
        else (0, memory.initial(rows))
    )
    expected, _ = tick_by_tick(memory, features[before:], state, starts[before:])
    flat = features[before:].flatten(0, 1), state, starts[before:].flatten()
    np.testing.assert_allclose(memory.learn(*flat).detach().unflatten(0, (ticks, rows)), expected, atol=2e-5)


@settings(deadline=None, max_examples=60)
@given(MEMORIES, st.integers(1, 12), st.integers(0, 999))
def test_nothing_of_an_episode_reaches_the_next_one(given: dict[str, Any], border: int, seed: int) -> None:
    memory = made(given, seed)
    features, starts = th.randn(border + 6, 1, INPUTS), th.zeros(border + 6, 1, dtype=th.bool)
    starts[border] = True
    fresh, end = tick_by_tick(memory, features[border:], memory.initial(1), starts[border:])
    after, same_end = tick_by_tick(memory, features, th.randn(1, memory.width), starts)
    assert th.equal(after[border:], fresh)
    features.requires_grad_()
    memory.sequence(features, memory.initial(1), starts)[border:].sum().backward()  # type: ignore[no-untyped-call]
    assert features.grad is not None
    assert not features.grad[:border].any() and features.grad[border:].any()
    # What is left in a cache of before does not count either.
    assert th.equal(
        tick_by_tick(memory, features[:3], end, starts[:3])[0],
        tick_by_tick(memory, features[:3], same_end, starts[:3])[0],
    )


@settings(deadline=None, max_examples=30)
@given(MEMORIES, st.integers(2, 40), st.integers(0, 999))
def test_no_row_depends_on_others(given: dict[str, Any], rows: int, seed: int) -> None:
    memory = made(given, seed)
    features, state, starts = th.randn(rows, INPUTS), th.randn(rows, memory.width), th.rand(rows) < 0.3
    state[:, -1] = 1.0  # how many ticks attention has seen
    with th.no_grad():
        together = Remembered(state, starts)
        outputs = memory.act(features, together)
        for row in range(rows):
            alone = Remembered(state[row : row + 1], starts[row : row + 1])
            assert th.equal(memory.act(features[row : row + 1], alone)[0], outputs[row])
            assert th.equal(alone.state[0], together.state[row])


def test_attention_sees_so_many_ticks_and_no_more() -> None:
    memory, last = made({"kind": "attention", "size": 16, "heads": 2, "ticks": 4}), 9
    features = th.randn(last + 1, 1, INPUTS, requires_grad=True)
    memory.sequence(features, memory.initial(1), th.zeros(last + 1, 1, dtype=th.bool))[last].sum().backward()  # type: ignore[no-untyped-call]
    assert features.grad is not None
    assert features.grad[:, 0].any(1).tolist() == [False] * 6 + [True] * 4


@given(MEMORIES)
@settings(deadline=None, max_examples=20)
def test_the_number_of_weights_is_known_before(given: dict[str, Any]) -> None:
    memory = made(given)
    assert memory.settings.num_weights(INPUTS) == sum(
        p.numel() for name, p in memory.named_parameters() if "bias" not in name
    )
    assert memory.initial(2).shape == (2, memory.settings.width)


def test_states_are_packed_and_unpacked() -> None:
    words, states = np.arange(3, dtype=np.uint64) << np.uint64(40), np.random.default_rng(0).random((3, 5), np.float32)
    for one, other in zip(unpacked_states(packed_states(words, states)), (words, states), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("memory", "what"),
    [
        ("gru", "memory must be a mapping, such as {'kind': 'gru', 'size': 64}"),
        ({"size": 8}, "memory setting"),
        ({"kind": "gnu"}, "'gru', 'lstm' or 'attention'"),
        ({"kind": "gru", "size": 0}, "size"),
        ({"kind": "lstm", "size": 24}, "multiple of 16"),
        ({"kind": "gru", "sice": 8}, "did you mean 'size'"),
        ({"kind": "gru", "ticks": 8}, "'ticks' and 'heads' are of attention"),
        ({"kind": "attention", "size": 16, "heads": 3}, "must be a multiple of its 'heads'"),
        ({"kind": "attention", "ticks": 1}, "ticks"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(memory: Any, what: str) -> None:
    policy = {"observation_space": spaces.Box(-1, 1, (3,)), "action_space": spaces.Discrete(2)}
    with pytest.raises(ValueError, match=what) as refused:
        AutoregressivePolicy(**policy, lr_schedule=lambda _: 0.0, memory=memory)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_predict_carries_a_state_as_recurrent_ppo_does(kind: str) -> None:
    model = remembering_model(kind)
    env = NhVecEnv(3, seed=5)
    seen, masks = env.reset()["observation"], np.ones((3, 45), bool)
    assert model.policy.memory is not None
    actions, state = model.predict(seen, action_masks=masks, deterministic=True)
    assert state is not None and state[0].shape == (3, model.policy.memory.width) and actions.shape[0] == 3
    _, following = model.predict(seen, state, np.array([False, True, False]), True, masks)
    _, of_tuple = model.predict(seen, state[0], np.array([False, True, False]), True, masks)  # type: ignore[arg-type]
    assert following is not None and of_tuple is not None
    np.testing.assert_array_equal(following[0], of_tuple[0])
    assert (following[0][1] == state[0][1]).all() or kind == "attention"
    assert (following[0][[0, 2]] != state[0][[0, 2]]).any(1).all()
    single, own = model.predict(seen[0], None, None, True, masks[0])
    assert single.shape == actions[0].shape and own is not None
    np.testing.assert_array_equal(own[0][0], state[0][0])
    for wrong in ((state[0][:, 1:],), state[0][:2], (state[0], state[0])):
        with pytest.raises(ValueError, match="the state has the shape") as refused:
            model.predict(seen, wrong, None, True, masks)  # type: ignore[arg-type]
        assert "\n" not in str(refused.value)


def test_what_cannot_carry_memory_refuses_it_in_one_line() -> None:
    model = remembering_model("gru", critic=False)
    env = NhVecEnv(2, opponent="baseline")
    stock = MaskablePPO(AutoregressivePolicy, env, n_steps=4, batch_size=4, policy_kwargs=model.policy_kwargs)
    with pytest.raises(ValueError, match="MaskablePPO cannot carry: train it with sb3_pvp.PvpPPO"):
        stock.learn(8)
    with pytest.raises(ValueError, match="a search cannot carry"):
        network_of(model)
    with pytest.raises(ValueError, match="a search cannot carry"):
        model.normalize_reward = False
        model.learn(8, callback=ExpertIterationCallback())
    for magnet, what in (("ema", "magnet='ema' cannot carry"),):
        own = remembering_model("gru", critic=False, magnet=magnet, magnet_coef=0.1, ema_decay=0.9)
        with pytest.raises(ValueError, match=what):
            own.magnet = model if magnet == "file" else magnet
            own.learn(8)
    with pytest.raises(ValueError, match="n_steps=37 has no equal parts of about 16 steps"):
        remembering_model("lstm", n_steps=37)
