"""MA-POCA against numbers of ml-agents 1.1.0 itself: networks, λ-returns on the joint timeline, losses, Adam.

The folder in SB3_PVP_GOLDEN may hold other numbers of the same layout. `CHECKS` fail if any of the arrays is 1 % off.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch as th
from numpy.typing import NDArray

from sb3_pvp.algorithms.mapoca import AgentActions, GroupRolloutBuffer, MapocaUpdate, TeamNetworks, TeamSamples
from sb3_pvp.algorithms.mapoca import team_networks as own
from tests.algorithms.mapoca_numbers import (
    ADAM,
    FLOAT64,
    Arrays,
    check_unit,
    close,
    from_mlagents,
    returns_of,
    tensor,
    within,
)
from tests.games.soccer.golden import golden_file


def loaded(weights: Arrays, actions: AgentActions, num_layers: int) -> TeamNetworks:
    named = from_mlagents(weights)
    hidden, seen = named["actor.body.0.weight"].shape
    networks = TeamNetworks(seen, actions, hidden, num_layers)
    networks.load_state_dict(named)
    check_constants(weights, actions)
    return networks


def check_constants(weights: Arrays, actions: AgentActions) -> None:
    """What ml-agents stores beside its weights."""
    constants = within(weights, "actor/")
    assert constants["version_number"] == 3 and constants["memory_size_vector"] == 0
    assert constants["continuous_act_size_vector"] == actions.continuous
    assert constants["act_size_vector_deprecated"] == actions.encoded_size
    assert constants["discrete_act_size_vector"].ravel().tolist() == [*actions.branches]
    assert constants["is_continuous_int_deprecated"] == (not actions.branches)


def check_networks(arrays: Arrays, block: str) -> None:
    """One forward pass of critic and actor."""
    of = within(arrays, f"{block}/")
    actions = AgentActions(int(of["cfg/continuous"]), tuple(of["cfg/branches"].tolist()))
    networks = loaded(within(of, "w/"), actions, int(of["cfg/num_layers"]))
    assert float(networks.critic.max_agents) == of["cfg/max_agents_before"]
    seen = [of[f"in/obs_{number}"] for number in range(len(of["cfg/obs_sizes"]))]
    assert [each.shape[-1] for each in seen] == of["cfg/obs_sizes"].tolist()
    observations = tensor(np.concatenate(seen, -1))
    taken = tensor(np.concatenate([of["in/act_cont"], of["in/act_disc"]], -1))
    present = th.as_tensor(of["in/active"])
    assert networks.critic.embed.out_features == of["cfg/hidden_units"]

    values, baselines = networks.critic.evaluate(observations, taken, present)
    close(values, of["V/value"])
    close(networks.critic(observations, present), of["V/value"])
    close(baselines, of["Q/baseline"])
    assert float(networks.critic.max_agents) == of["cfg/max_agents_after"]
    check_stages(networks.critic, observations, taken, present, of)
    check_actor(networks.actor, observations, taken, of)
    networks.double()
    values, baselines = networks.critic.evaluate(observations.double(), taken.double(), present)
    close(values, of["V/value_float64"], FLOAT64)
    close(baselines, of["Q/baseline_float64"], FLOAT64)


def check_stages(
    critic: own.TeamCritic, observations: th.Tensor, taken: th.Tensor, present: th.Tensor, of: Arrays
) -> None:
    """What the critic computes on its way to V, and to the baseline of the first agent."""
    alone, acting = critic.embeddings(observations, taken, present)
    others = th.cat([acting[:, 1:], alone[:, :1]], 1)
    there = th.cat([present[:, 1:], present[:, :1]], 1)
    close(alone, of["V/g_embedding"])
    close(own.normalized(alone), of["V/entities_after_layernorm"])
    close(critic.attention(critic.attention.prepare(alone), present), of["V/entities_out_before_pool"])
    close(others[:, :-1], of["Q0/f_embedding_of_agents_1_to_K-1"])
    close(others[:, -1:], of["Q0/g_embedding_of_agent_0"])
    for name, entities, mask in (("V", alone, present), ("Q0", others, there)):
        team = own.pooled(critic.attention(critic.attention.prepare(entities), mask), mask)
        close(team, of[f"{name}/rsa_pooled"])
        close(critic.encoder(team), of[f"{name}/linear_encoder"])
        close(critic.share(mask)[:, 0], of[f"{name}/n_agents_scalar"])


def check_actor(actor: own.AgentActor, observations: th.Tensor, taken: th.Tensor, of: Arrays) -> None:
    """What the actor computes for the agents that are present."""
    rows, agents = of["actor/rows_batch_agent"].T
    branches = actor.actions.branches
    masks = tensor(of["actor/allow_mask"]) if branches else th.ones(len(rows), 0)
    latent = actor.body(observations[rows, agents])
    close(latent, of["actor/body_encoding"])
    means, logs = actor.decide(latent, masks)
    if branches:
        close(logs.exp() - own.LEAST_PROBABILITY, of["actor/branch_probs_concat"])
    if actor.actions.continuous:
        close(means, of["actor/mu"])
        close(actor.log_std.exp().expand_as(means), of["actor/sigma"])
    log_probs, entropies = actor.evaluate(latent, taken[rows, agents], masks)
    close(log_probs, of["actor/log_probs_per_action_dim"])
    close(entropies, of["actor/entropy_sum"])


MOVES = AgentActions(branches=(3, 3, 2))  #: Of the teams whose trajectories and update are in the file.


def at_start(arrays: Arrays) -> TeamNetworks:
    """Returns the networks that played the trajectories, after the largest team was seen."""
    assert arrays["P/cfg/branches"].tolist() == [*MOVES.branches]
    networks = loaded(within(arrays, "P/w0/"), MOVES, 2)
    most = float(arrays["P/cfg/max_agents_after"])
    assert arrays["P/note_max_agents_during_joint"] == most
    networks.critic.max_agents.fill_(most)
    return networks


def check_trajectory(arrays: Arrays, number: int) -> None:
    """One agent's trajectory as ml-agents had it, with its mates' last step where it dies."""
    of, networks = within(arrays, f"P/traj{number:02d}/"), at_start(arrays)
    agent = int(of["agent"])
    episode = within(arrays, f"P/ep{of['episode']}/")
    # An episode that is longer than the horizon has a second trajectory of the agent.
    earlier = [within(arrays, f"P/traj{each:02d}/") for each in range(number)]
    begin = int(episode["first_tick"][agent]) + sum(
        len(each["obs"]) for each in earlier if (each["agent"], each["episode"]) == (agent, of["episode"])
    )
    ticks = slice(begin, begin + len(of["obs"]))
    arriving = slice(ticks.start + 1, ticks.stop + 1)
    assert len(of["obs"]) == min(episode["time_horizon"], episode["terminal_tick"][agent] - begin)
    close(of["obs"], episode["obs"][ticks, agent], 0)
    close(of["act"], episode["act"][ticks, agent], 0)
    close(of["next_obs"], episode["obs"][ticks.stop, agent], 0)
    close(of["own_reward"], episode["reward_arriving_at_tick"][arriving, agent], 0)
    close(of["group_reward"], episode["group_reward_arriving_at_tick"][arriving], 0)
    offset = sum(len(each["obs"]) for each in earlier)
    rows = slice(offset, offset + len(of["obs"]))
    close(arrays["U/in/old_log_probs"][rows], episode["old_log_probs"][ticks, agent], 0)
    learned = {"old_value": "value", "old_baseline": "baseline", "raw_advantage": "advantage"}
    for name in ("obs", "act", "returns", *learned):
        close(arrays[f"U/in/{name}"][rows], of[learned.get(name, name)], 0)

    observations = np.concatenate([of["obs"][:, None], of["mate_obs"]], 1)
    taken = np.concatenate([of["act"][:, None], of["mate_act"].clip(0)], 1)  # -1 where one is absent
    present = th.as_tensor(~np.isnan(observations).any(-1))
    assert ((of["mate_done"] >= 0) == present[:, 1:].numpy()).all()
    values, baselines = networks.critic.evaluate(tensor(observations), tensor(taken), present)
    close(values, of["value"])
    close(baselines[:, 0], of["baseline"])
    after = tensor(np.concatenate([of["next_obs"][None], of["next_mate_obs"]])[None])
    ended = bool(of["done"][-1] and of["all_group_dones_reached"] and not of["interrupted"])
    assert ended == of["bootstrap_zeroed"]
    if ended:  # with all of its mates
        mates = [each for each, last in enumerate(episode["terminal_tick"]) if last == ticks.stop and each != agent]
        close(of["next_mate_obs"][: len(mates)], episode["obs"][ticks.stop, mates], 0)
    last_value = networks.critic(after, ~after.isnan().any(-1)) * (not ended)
    close(last_value, of["value_next"])
    factors = float(arrays["P/cfg/gamma"]), float(arrays["P/cfg/lambd"])
    close(
        returns_of(of["total_reward"], of["value"], of["value_next"][0], ended, *factors).returns[:, 0], of["returns"]
    )
    close(of["returns"] - baselines[:, 0].detach().numpy(), of["advantage"])


def check_episode(arrays: Arrays, block: str) -> None:
    """The joint timeline, where agents die and join and the team's λ-return runs on; then ml-agents' trajectories."""
    of, networks = within(arrays, f"{block}/"), at_start(arrays)
    steps, agents = of["act"].shape[:2]
    ticks = np.arange(steps + 1)[:, None]
    present = (of["first_tick"] <= ticks) & (ticks < of["terminal_tick"])
    there = (present | (ticks == steps) & (of["terminal_tick"] == steps))[:, None]  # at the end: who sees it
    seen, taken = of["obs"][:, None], of["act"][:, None].astype(np.float32)
    factors = float(arrays["P/cfg/gamma"]), float(arrays["P/cfg/lambd"])
    buffer = GroupRolloutBuffer(steps, 1, agents, seen.shape[-1], MOVES, *factors)
    for step in range(steps):
        alone = of["reward_arriving_at_tick"][step + 1][there[step, 0]]
        group = of["group_reward_arriving_at_tick"][step + 1] + alone.sum()
        buffer.add(
            seen[step],
            there[step],
            taken[step],
            group[None],
            np.array([step == 0]),
        )
    buffer.evaluate(networks.critic, 4)
    values = networks.critic(tensor(seen[-1]), th.as_tensor(there[-1])).detach().numpy()
    buffer.compute_returns_and_advantage(values[-1:], np.array([not of["interrupted"]]))
    close(np.append(buffer.values[:, 0], values[-1]), of["joint/V"])
    close(buffer.rewards[:, 0], of["joint/team_reward"])
    close(buffer.returns[:, 0], of["joint/returns"])
    for number in range(int(arrays["P/cfg/n_trajectories"])):
        if arrays[f"P/traj{number:02d}/episode"] == int(block.removeprefix("P/ep")):
            check_trajectory(arrays, number)


def check_update(arrays: Arrays, block: str) -> None:
    """One step of Adam, and three, on the rows of all trajectories."""
    of, given = within(arrays, "U/out/"), within(arrays, "U/in/")
    networks = loaded(within(arrays, "U/w1/"), MOVES, 2)
    samples = rows_of(given)
    assert np.array_equal(given["old_value"], given["returns"]) != arrays["U/check/package_old_values_equal_returns"]
    close(samples.standardized().advantages[:, 0], of["normalized_advantage"])

    optimizer = ADAM(networks.parameters(), float(of["lr"]))
    intended = MapocaUpdate(networks, optimizer, float(of["epsilon"]), float(of["beta"]))
    update = replace(intended, clip_value_loss=False)
    log_probs, entropies = networks.actor.evaluate(
        networks.actor.body(samples.observations[:, 0]), samples.actions[:, 0], th.ones(len(samples), 8)
    )
    values, baselines = networks.critic.evaluate(samples.observations, samples.actions, samples.present)
    for name, numbers in {"log_probs": log_probs, "value": values, "baseline": baselines[:, 0]}.items():
        close(numbers, of[f"new_{name}"])
    close(entropies, of["entropy"])
    _, terms = intended.loss(samples.standardized())
    close(terms[1], of["value_loss_with_true_old_values"])
    loss, terms = update.loss(samples.standardized())
    for term, name in zip(terms, ("policy_loss", "value_loss", "baseline_loss"), strict=False):
        close(term, of[name])
    close(loss, of["total_loss"])
    loss.backward()
    gradients = from_mlagents(within(arrays, "U/grad/"))
    for name, weight in networks.named_parameters():
        close(weight.grad, gradients[name].numpy())
    update.run(samples, 1)
    check_weights(networks, within(arrays, "U/w2_after_one_adam_step/"))
    update.run(samples, 2)
    check_weights(networks, within(arrays, "U/w2_after_three_epochs/"))


def rows_of(given: Arrays) -> TeamSamples:
    """Returns one row of a team for each step of each agent, in which that agent is the first, and the one to learn."""
    observations = np.concatenate([given["obs"][:, None], given["mate_obs"]], 1)
    taken = np.concatenate([given["act"][:, None], given["mate_act"]], 1)
    rows, agents = observations.shape[:2]
    learning = th.zeros(rows, agents, dtype=th.bool)
    learning[:, 0] = True

    def of_first(array: NDArray[Any]) -> th.Tensor:
        return tensor(np.broadcast_to(array[:, None], (rows, agents, *array.shape[1:])))

    return TeamSamples(
        observations=tensor(observations),
        actions=tensor(taken),
        action_masks=th.ones(rows, agents, sum(MOVES.branches), dtype=th.bool),
        present=th.as_tensor(~np.isnan(observations).any(-1)),
        learning=learning,
        old_log_probs=of_first(given["old_log_probs"]),
        old_values=tensor(given["old_value"]),
        old_baselines=of_first(given["old_baseline"]),
        returns=tensor(given["returns"]),
        advantages=of_first(given["raw_advantage"]),
    )


def check_weights(networks: TeamNetworks, theirs: Arrays) -> None:
    """Compares all weights but the bias of keys, which no output depends on, so that Adam only enlarges rounding."""
    check_constants(theirs, MOVES)
    expected = from_mlagents(theirs)
    bias = expected["critic.attention.project.bias"]
    size = len(bias) // 3
    bias[size : 2 * size] = networks.critic.attention.project.bias[size : 2 * size].detach()
    for name, weight in networks.state_dict().items():
        close(weight, expected[name].numpy())


CHECKS = dict.fromkeys("ABSL", check_networks) | {"P/ep": check_episode, "U": check_update, "unit": check_unit}
#: Arrays that nothing of MA-POCA depends on.
UNUSED = re.compile(
    r"P/w0/actor/"  # the log-probabilities of the trajectories are random
    r"|.*fc_k\.bias$"  # it adds the same to all scores of a query
    r"|unit/normalizer/"  # observations are not normalised here
)


def block_of(name: str) -> str:
    """Returns what is checked together with an array: one network, episode, update or function."""
    if name.startswith("P/traj"):
        return f"P/ep{golden()[name[:8] + '/episode']}"
    if name.startswith("P/") and not name.startswith("P/ep"):
        return "P/ep1"
    return re.match(r"unit/init/h\d+|unit/\w+|P/\w+|\w+", name)[0]  # type: ignore[index]


def run_check(arrays: Arrays, block: str) -> None:
    next(check for begin, check in CHECKS.items() if block.startswith(begin))(arrays, block)


@cache
def golden() -> dict[str, NDArray[Any]]:
    with np.load(golden_file("poca-golden.npz")) as file:
        return dict(file)


BLOCKS = sorted({block_of(name) for name in golden()} - {"unit/normalizer"})


@pytest.mark.parametrize("block", BLOCKS)
def test_same_numbers_as_mlagents(block: str) -> None:
    run_check(golden(), block)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.slow
def test_any_array_that_is_one_percent_off_fails(block: str) -> None:
    signs, missed = np.random.default_rng(0), []
    for name, array in golden().items():
        if block_of(name) != block or UNUSED.match(name) or array.dtype.kind != "f" or not np.nan_to_num(array).any():
            continue
        # Not all in one direction, which layer normalisation and standardised advantages would undo.
        changed = array * (1 + 0.01 * signs.choice([-1, 1], array.shape))
        try:
            run_check({**golden(), name: changed.astype(array.dtype)}, block)
            missed.append(name)
        except AssertionError:
            pass
    assert not missed
