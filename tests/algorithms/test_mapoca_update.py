"""The losses of MA-POCA by hand, credit after an agent's death, and teams of which some are absent."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch as th

from sb3_pvp.algorithms.mapoca import AgentActions, GroupRolloutBuffer, MapocaUpdate, TeamNetworks, TeamSamples
from tests.algorithms.mapoca_numbers import ADAM, sampled

COIN = AgentActions(branches=(2,))


def team(num_agents: int = 3, steps: int = 1) -> TeamSamples:
    """Returns steps of a team of which the last agent is absent."""
    present = th.tensor([[True] * (num_agents - 1) + [False]] * steps)
    nothing = th.zeros(steps, num_agents)
    return TeamSamples(
        observations=th.zeros(steps, num_agents, 1),
        actions=th.tensor([[[1.0], [0.0], [0.0]]] * steps)[:, :num_agents],
        action_masks=th.ones(steps, num_agents, 2, dtype=th.bool),
        present=present,
        learning=present,
        old_log_probs=th.full((steps, num_agents, 1), log(0.5)),
        old_values=th.full((steps,), 0.5),
        old_baselines=nothing + 1.1,
        returns=th.full((steps,), 2.0),
        advantages=th.tensor([[1.0, -1.0, 77.0]] * steps)[:, :num_agents],
    )


@pytest.mark.parametrize("clip_value_loss", [True, False])
def test_loss_by_hand(clip_value_loss: bool) -> None:
    networks = TeamNetworks(1, COIN, 4, 1)
    for weight in networks.parameters():
        weight.data.zero_()
    networks.critic.value.bias.data[:] = 1.0  # V and all baselines
    networks.actor.output.bias.data[:] = th.tensor([0.25, 0.75]).log()
    update = MapocaUpdate(networks, ADAM(networks.parameters(), 0.1), 0.2, 0.01, clip_value_loss=clip_value_loss)

    loss, terms = update.loss(team())

    policy = -(min(1.5, 1.2) * 1 + min(0.5 * -1, 0.8 * -1)) / 2  # ratios .75 / .5 and .25 / .5
    value = (2 - (0.5 + 0.2)) ** 2 if clip_value_loss else (2 - 1) ** 2  # 1 is farther than .2 from the old .5
    baseline = (2 - 1) ** 2  # within .2 of the old 1.1
    entropy = -(0.25 * log(0.25) + 0.75 * log(0.75))
    expected = policy + 0.5 * (value + 0.5 * baseline) - 0.01 * entropy
    assert terms.tolist() == pytest.approx([policy, value, baseline, -entropy, expected], abs=1e-5)
    assert loss.item() == pytest.approx(expected, abs=1e-5)


def test_who_dies_is_paid_by_what_its_mates_reach_but_not_by_the_next_episode() -> None:
    buffer = GroupRolloutBuffer(4, 1, 2, 1, COIN, gamma=0.9, gae_lambda=1.0)
    nothing, zero = np.zeros((1, 2, 1), np.float32), np.zeros(1, np.float32)
    baselines = np.array([[0.25, 0.5]], np.float32)
    for step, reward in enumerate((-0.2, 0.0, 1.0, 5.0)):
        active = np.array([[True, step in (0, 3)]])
        buffer.add(nothing, active, nothing, zero + reward, np.array([step in (0, 3)]))
    buffer.baselines[:] = baselines
    buffer.compute_returns_and_advantage(np.full(1, 100, np.float32), np.array([True]))

    assert buffer.full
    assert buffer.returns[:, 0].tolist() == pytest.approx([-0.2 + 0.81, 0.9, 1.0, 5.0])
    assert buffer.advantages[0, 0].tolist() == pytest.approx([0.61 - 0.25, 0.61 - 0.5])
    assert buffer.samples().learning.tolist() == [[True, True], [True, False], [True, False], [True, True]]


def test_unfinished_episodes_go_on_from_the_value_of_what_comes_next() -> None:
    buffer = GroupRolloutBuffer(2, 2, 1, 1, COIN, gamma=0.5, gae_lambda=0.5)
    nothing, one = np.zeros((2, 1, 1), np.float32), np.ones(2, np.float32)
    for step in range(2):
        buffer.add(nothing, np.ones((2, 1), np.bool_), nothing, one, np.full(2, step == 0))
    buffer.values[:] = 4
    buffer.compute_returns_and_advantage(one * 8, np.array([False, True]))

    assert buffer.returns[1].tolist() == [1 + 0.5 * 8, 1]
    assert buffer.returns[0].tolist() == [1 + 0.5 * (0.5 * 4 + 0.5 * 5), 1 + 0.5 * (0.5 * 4 + 0.5 * 1)]


def test_what_follows_stands_in_for_the_value_of_a_team_in_which_nobody_is_left() -> None:
    buffer = GroupRolloutBuffer(3, 1, 1, 1, COIN, gamma=0.5, gae_lambda=0.0)
    nothing, zero = np.zeros((1, 1, 1), np.float32), np.zeros(1, np.float32)
    for step, reward in enumerate((0.0, 0.0, 8.0)):
        active = np.array([[step == 0]])
        buffer.add(nothing, active, nothing, zero + reward, np.array([step == 0]))
    buffer.values[:] = 77
    buffer.compute_returns_and_advantage(zero, np.array([True]))

    assert buffer.returns[:, 0].tolist() == [2, 4, 8]


def test_steps_in_which_nobody_acts_are_no_samples() -> None:
    buffer = GroupRolloutBuffer(1, 2, 2, 1, COIN)
    nothing, zero = np.full((2, 2, 1), np.nan, np.float32), np.zeros(2, np.float32)
    active = np.array([[False, False], [True, False]])
    buffer.add(np.where(active[..., None], 0, nothing), active, nothing * 0, zero, zero > 0)
    buffer.compute_returns_and_advantage(zero, zero > 0)

    assert buffer.samples().present.tolist() == [[True, False]]
    assert not buffer.samples().observations.isnan().any()


def test_absent_agents_and_the_order_of_agents_change_nothing() -> None:
    th.manual_seed(0)
    critic = TeamNetworks(3, AgentActions(2, (3, 2)), 8, 2).critic
    observations, present = th.randn(5, 4, 3), th.tensor([[True, True, False, True]] * 5)
    actions = th.cat([th.randn(5, 4, 2), th.randint(2, (5, 4, 2))], -1)
    values, baselines = critic.evaluate(observations, actions, present)

    order = th.tensor([3, 1, 0, 2])
    observations[:, 2] = th.nan
    moved = (each[:, order] for each in (observations, actions, present))
    other_values, other_baselines = critic.evaluate(*moved)

    assert th.allclose(values, other_values, atol=1e-6)
    assert th.allclose(baselines[:, order[:3]], other_baselines[:, :3], atol=1e-6)


def test_a_baseline_depends_on_the_actions_of_mates_only() -> None:
    th.manual_seed(0)
    critic = TeamNetworks(3, COIN, 8, 2).critic
    observations, present = th.randn(1, 2, 3), th.ones(1, 2, dtype=th.bool)
    _, before = critic.evaluate(observations, th.tensor([[[0.0], [0.0]]]), present)
    _, after = critic.evaluate(observations, th.tensor([[[1.0], [0.0]]]), present)

    assert before[0, 0] == after[0, 0]
    assert before[0, 1] != after[0, 1]


def test_illegal_choices_are_neither_made_nor_learned() -> None:
    th.manual_seed(0)
    actor = TeamNetworks(2, AgentActions(1, (3, 2)), 8, 1).actor
    masks = th.tensor([[True, False, True, False, True]] * 500)
    actions = sampled(actor, th.randn(500, 2), masks)

    assert set(actions[:, 1].tolist()) == {0, 2} and set(actions[:, 2].tolist()) == {1}
    assert actions[:, 0].std() > 0.5
    log_probs, _ = actor.evaluate(actor.body(th.randn(500, 2)), actions, masks)
    log_probs.sum().backward()
    assert not actor.output.weight.grad[[2, 4, 5]].any() and actor.output.weight.grad[1].any()


def test_what_is_left_after_the_last_full_mini_batch_is_dropped() -> None:
    networks = TeamNetworks(1, COIN, 4, 1)
    optimizer, steps = ADAM(networks.parameters(), 1e-3), []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    MapocaUpdate(networks, optimizer, 0.2, 0.01).run(team(steps=7), n_epochs=2, batch_size=3)

    assert len(steps) == 2 * 2


def test_the_team_learns_which_choice_is_paid() -> None:
    th.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    networks, samples = TeamNetworks(1, COIN, 8, 1), team(steps=64)
    update = MapocaUpdate(networks, ADAM(networks.parameters(), 1e-2), 0.2, 0.0)
    terms = update.run(samples, n_epochs=20, batch_size=16)

    _, logs = networks.actor.decide(networks.actor.body(th.zeros(1, 1)), th.ones(1, 2))
    assert logs[0, 1] > log(0.55)  # the first agent's choice, and not the second one's
    assert terms["value_loss"] > 0
