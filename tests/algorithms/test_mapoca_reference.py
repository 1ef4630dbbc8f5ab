"""MA-POCA against numbers of ml-agents 1.1.0 itself: networks, λ-returns on the joint timeline, losses, Adam.

The folder in SB3_PVP_GOLDEN may hold other numbers of the same layout. `CHECKS` fail if any of the arrays is 1 % off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch as th
from numpy.typing import NDArray
from torch.nn import functional as F

from sb3_pvp.algorithms.mapoca import AgentActions, GroupRolloutBuffer, MapocaUpdate, TeamNetworks, TeamSamples
from sb3_pvp.algorithms.mapoca import team_networks as own
from sb3_pvp.algorithms.mapoca.team_update import (
    clipped_policy_loss,
    clipped_value_loss,
    linear_decay,
    make_optimizer,
)
from sb3_pvp.players.league import expected_score
from tests.games.soccer.golden import golden_file

Arrays = Mapping[str, NDArray[Any]]
FLOAT32, FLOAT64 = 2e-5, 1e-6  #: What the page of the numbers allows, absolute.
LAYERS = {
    "critic/network_body._current_max_agents": "critic.max_agents",
    "critic/network_body.obs_encoder.self_ent_encoder.seq_layers.0": "critic.embed",
    "critic/network_body.obs_action_encoder.self_ent_encoder.seq_layers.0": "critic.embed_with_action",
    "critic/network_body.self_attn.fc_q": "critic.attention.project",
    "critic/network_body.self_attn.fc_k": "critic.attention.project",
    "critic/network_body.self_attn.fc_v": "critic.attention.project",
    "critic/network_body.self_attn.fc_out": "critic.attention.out",
    "critic/network_body.linear_encoder.seq_layers": "critic.encoder.",
    "critic/value_heads.value_heads.extrinsic": "critic.value",
    "actor/network_body._body_endoder.seq_layers": "actor.body.",
    "actor/action_model._continuous_distribution.mu": "actor.output",
    "actor/action_model._continuous_distribution.log_sigma": "actor.log_std",
    "actor/action_model._discrete_distribution.branches": "actor.output",
}


def from_mlagents(weights: Arrays) -> dict[str, th.Tensor]:
    """Returns weights of ml-agents by our names; layers that are one here are joined in the order of `LAYERS`."""
    parts: dict[str, list[th.Tensor]] = {}
    for theirs, ours in LAYERS.items():
        for name in (name for name in weights if name.startswith(theirs)):
            match = re.fullmatch(r"(?:\.(\d+))?(?:\.(weight|bias))?", name.removeprefix(theirs))
            assert match, name
            number, kind = match.groups()
            ours_now = ours + number if ours.endswith(".") else ours
            parts.setdefault(f"{ours_now}.{kind}" if kind else ours, []).append(th.as_tensor(weights[name]))
    joined = {name: th.cat(each) if each[0].ndim else each[0] for name, each in parts.items()}
    return joined | {"actor.log_std": joined.get("actor.log_std", th.zeros(0)).flatten()}


def within(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """Returns the arrays whose names begin so, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def close(ours: Any, theirs: NDArray[Any], tolerance: float = FLOAT32) -> None:
    """Asserts that all numbers agree; NaN is where there is nothing to compare."""
    ours = ours.detach().numpy() if isinstance(ours, th.Tensor) else np.asarray(ours)
    assert ours.shape == theirs.shape
    there = ~np.isnan(theirs)
    assert np.abs(ours[there] - theirs[there]).max(initial=0) <= tolerance


def tensor(array: NDArray[Any], dtype: th.dtype = th.float32) -> th.Tensor:
    return th.tensor(array, dtype=dtype)


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


def returns_of(
    rewards: NDArray[Any], values: NDArray[Any], last_value: Any, done: bool, gamma: float, gae_lambda: float
) -> GroupRolloutBuffer:
    """Returns a buffer with one team that gets these rewards."""
    buffer = GroupRolloutBuffer(len(rewards), 1, 1, 1, AgentActions(1), gamma, gae_lambda)
    nothing = np.zeros((1, 1, 1), np.float32)
    for step, reward in enumerate(rewards):
        buffer.add(nothing, np.ones((1, 1), np.bool_), nothing, reward[None], np.array([step == 0]), nothing)
    buffer.values[:, 0] = values
    buffer.compute_returns_and_advantage(np.array([last_value], np.float32), np.array([done]))
    return buffer


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
        group = of["group_reward_arriving_at_tick"][step + 1]
        buffer.add(
            seen[step],
            there[step],
            taken[step],
            group[None],
            np.array([step == 0]),
            of["old_log_probs"][None, step],
            agent_rewards=of["reward_arriving_at_tick"][None, step + 1],
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

    optimizer = make_optimizer(networks, float(of["lr"]))
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


def check_unit(arrays: Arrays, block: str) -> None:
    """One function alone."""
    of = {name: th.as_tensor(array) for name, array in within(arrays, f"{block}/").items()}
    name = block.removeprefix("unit/").rstrip("0123456789")
    UNITS[name](of)


Tensors = Mapping[str, th.Tensor]


def check_attention(of: Tensors) -> None:
    heads, present = int(of["heads"]), of["mask_1_is_absent"] != 1
    for suffix, there in (("", present), ("_no_mask", th.ones_like(present))):
        mixed, attention = own.attend(of["q"], of["k"], of["v"], there, heads)
        close(mixed, of[f"out{suffix}"].numpy())
        close(attention, of[f"att{suffix}"].numpy())


def check_rsa(of: Tensors) -> None:
    theirs = {f"critic/network_body.self_attn.{name}": array.numpy() for name, array in within(of, "w/").items()}  # type: ignore[arg-type]
    weights = {name.removeprefix("critic.attention."): each for name, each in from_mlagents(theirs).items()}
    attention, present = own.TeamAttention(of["in"].shape[-1]), of["mask_1_is_absent"] != 1
    attention.load_state_dict({name: each for name, each in weights.items() if not name.startswith("actor")})
    close(own.pooled(attention(attention.prepare(of["in"]), present), present), of["out"].numpy())


def check_lambda_return(of: Tensors) -> None:
    rewards, values = of["r"].numpy(), of["v"].numpy()
    returns = returns_of(rewards, values, of["v_next"].item(), False, *of["gamma_lambda"].tolist()).returns[:, 0]
    close(returns, of["out"].numpy())
    close(returns - values, of["gae"].numpy())  # the same sum in another order


def check_loss(of: Tensors) -> None:
    every = th.ones_like(of["mask"])
    for which, mask in (("all", every), ("masked", of["mask"])):
        for clip_range in (0.1, 0.2):
            given = {name: of[name][mask] for name in {"old", "new", "adv", "returns"} & set(of)}
            if "adv" in given:
                loss = clipped_policy_loss(given["new"], given["old"], given["adv"], clip_range)
            else:
                loss = clipped_value_loss(given["new"], given["old"], given["returns"], clip_range)
            close(loss, of[f"{which}_eps{clip_range}"].numpy())


def check_decay(of: Tensors) -> None:
    initial = {
        "lr_5e4": 5e-4,
        "lr_3e4": 3e-4,
        "epsilon_02": 0.2,
        "epsilon_005": 0.05,
        "beta_5e3": 5e-3,
        "beta_1e2": 0.01,
    }
    ours = {"lr": "learning_rate", "epsilon": "clip_range", "beta": "ent_coef"}
    assert (of["constant"] == 3e-4).all()
    for name in of.keys() - {"steps", "constant"}:
        which, _, last = name.rpartition("_max")
        schedule = linear_decay(ours[which.partition("_")[0]], initial[which], int(last))
        close([schedule(step) for step in of["steps"].tolist()], of[name].numpy(), 1e-12)


def check_categorical(of: Tensors) -> None:
    logs = own.categorical_logs(of["logits"])
    close(logs.gather(-1, of["action"][:, None])[:, 0], of["log_prob"].numpy())
    close(own.categorical_entropy(logs)[:, None], of["entropy"].numpy())


def check_gaussian(of: Tensors) -> None:
    log_std = of["sigma"].log()
    close(own.gaussian_log_prob(of["mu"], log_std, of["action"]), of["log_prob"].numpy())
    close(own.gaussian_entropy(log_std).mean(-1, keepdim=True), of["entropy"].numpy())


def check_initial_weights(of: Tensors) -> None:
    """Counts, and deviations as far as so many samples tell them apart."""
    th.manual_seed(0)
    square = "critic/network_body.linear_encoder.seq_layers.0.weight"
    networks = TeamNetworks(336, AgentActions(branches=(3, 3, 3)), round(sqrt(of[square][3] / 4)), 2)
    named = dict(networks.named_parameters())
    for theirs, statistics in of.items():
        _, deviation, _, count = statistics.tolist()
        (ours,) = from_mlagents({theirs: np.zeros(0, np.float32)}).keys() - {"actor.log_std"}
        weight = named[ours]
        joined = 3 if ours in ("critic.attention.project.weight", "actor.output.weight") else 1
        assert count == 4 * weight.numel() / joined
        assert (
            abs(weight.std(correction=0).item() / deviation - 1) < 4 * sqrt((1 + joined / 4) / 2 / (count / 4)) + 0.01
        )


def check_max_agents(of: Tensors) -> None:
    """A call has several rows; what most agents seen at once are is counted over all of them first."""
    critic, rows = TeamNetworks(1, AgentActions(1), 4, 1).critic, of["call_present_maxafter_scalar"].numpy()
    begins = np.flatnonzero(rows[:, 0] >= 0)
    assert (rows[begins, 0] == begins).all() and (rows[rows[:, 0] < 0, 0] == -1).all()
    for call in np.split(rows, begins[1:]):
        present = th.as_tensor(np.arange(5) < call[:, 1:2])
        critic.see(present)
        close(critic.max_agents.expand(len(call)), call[:, 2])
        close(critic.share(present)[:, 0], call[:, 3])


def check_elo(of: Tensors) -> None:
    own_rating, opponent, result, *theirs = of["own_opp_result_change_ownafter_oppafter"].numpy().T
    change = result - np.vectorize(expected_score)(own_rating, opponent)
    for ours, numbers in zip((change, own_rating + change, opponent - change), theirs, strict=True):
        close(ours, numbers, 1e-9)


def check_masked_mean(of: Tensors) -> None:
    """The losses are means over the rows that count, and over dimensions."""
    close(of["x1"][of["mask"]].mean(), of["out1"].numpy())
    close(of["x2"][of["mask"]].mean(), of["out2"].numpy())


UNITS: dict[str, Callable[[Tensors], None]] = {
    "layernorm": lambda of: close(own.normalized(of["in"]), of["out"].numpy()),
    "swish": lambda of: close(F.silu(of["in"]), of["out"].numpy()),
    "attention": check_attention,
    "rsa": check_rsa,
    "lambda_return": check_lambda_return,
    "value_loss": check_loss,
    "policy_loss": check_loss,
    "decay": check_decay,
    "categorical": check_categorical,
    "gaussian": check_gaussian,
    "init/h": check_initial_weights,
    "max_agents": check_max_agents,
    "elo": check_elo,
    "masked_mean": check_masked_mean,
}

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
