"""Numbers of ml-agents by our names, and what checks its functions one by one; for `test_mapoca_reference`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch.nn import functional as F

from sb3_pvp.algorithms.mapoca import AgentActions, GroupRolloutBuffer, TeamNetworks
from sb3_pvp.algorithms.mapoca import team_networks as own
from sb3_pvp.algorithms.mapoca.team_update import FLOORS, clipped_policy_loss, clipped_value_loss
from sb3_pvp.common.schedules import Linear
from sb3_pvp.players.league import expected_score

Arrays = Mapping[str, NDArray[Any]]
FLOAT32, FLOAT64 = 2e-5, 1e-6  #: What the page of the numbers allows, absolute.
ADAM = partial(th.optim.Adam, eps=1e-8)  #: The one optimiser of actor and critic.
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


@th.no_grad()
def sampled(actor: own.AgentActor, seen: th.Tensor, masks: th.Tensor) -> th.Tensor:
    """Returns actions ``(..., size)`` of agents that see ``(..., numbers)``; no rules hold between heads."""
    means, scores = actor.decide(actor.body(seen), masks)
    # The largest of logarithms with Gumbel noise is a sample; one draw serves all branches.
    scores = scores - th.empty_like(scores).exponential_().log()
    choices = [branch.argmax(-1, keepdim=True) for branch in actor.actions.by_branch(scores)]
    return th.cat([means + th.randn_like(means) * actor.log_std.exp(), *choices], -1)


def tensor(array: NDArray[Any], dtype: th.dtype = th.float32) -> th.Tensor:
    return th.tensor(array, dtype=dtype)


def returns_of(
    rewards: NDArray[Any], values: NDArray[Any], last_value: Any, done: bool, gamma: float, gae_lambda: float
) -> GroupRolloutBuffer:
    """Returns a buffer with one team that gets these rewards."""
    buffer = GroupRolloutBuffer(len(rewards), 1, 1, 1, AgentActions(1), gamma, gae_lambda)
    nothing = np.zeros((1, 1, 1), np.float32)
    for step, reward in enumerate(rewards):
        buffer.add(nothing, np.ones((1, 1), np.bool_), nothing, reward[None], np.array([step == 0]))
    buffer.values[:, 0] = values
    buffer.compute_returns_and_advantage(np.array([last_value], np.float32), np.array([done]))
    return buffer


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
        schedule = Linear(initial[which], FLOORS[ours[which.partition("_")[0]]], int(last))
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
        present = th.as_tensor(np.arange(rows[:, 1].max()) < call[:, 1:2])
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


def check_unit(arrays: Arrays, block: str) -> None:
    """One function alone."""
    of = {name: th.as_tensor(array) for name, array in within(arrays, f"{block}/").items()}
    name = block.removeprefix("unit/").rstrip("0123456789")
    UNITS[name](of)
