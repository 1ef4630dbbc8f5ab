"""The original's own numbers (tests/data/dreamer/README.md), and the same computed by ours.

Here one world-model step with all that follows from it; single formulas are in `dreamer_formulas`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn

from sb3_pvp.algorithms.dreamer.distributions import (
    BoundedNormal,
    Draws,
    latent_entropy,
    latent_kl,
    mixed_probs,
    two_hot_mean,
)
from sb3_pvp.algorithms.dreamer.laprop import LaProp, clip_adaptively
from sb3_pvp.algorithms.dreamer.losses import (
    LossSettings,
    ReturnScale,
    Sequences,
    dreamer_losses,
)
from sb3_pvp.algorithms.dreamer.signals import Signal, encode_actions
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.algorithms.dreamer.world_model import DreamerNetworks, Latent
from tests.paths import DATA

Arrays = dict[str, NDArray[Any]]

SIZE = ModelSize(deter=32, hidden=16, units=16, classes=4, depth=2, stoch=4, blocks=4)
SETTINGS = LossSettings(imagined_steps=3)
VECTOR = {"vector": Signal(6)}
#: The observation and the action of each case.
CASES: dict[str, tuple[dict[str, Signal], dict[str, Signal]]] = {
    "disc": (VECTOR, {"action": Signal(1, 3)}),
    "cont": (VECTOR, {"action": Signal(2)}),
    "mixed": (
        {"image": Signal(0, image=(48, 48, 3)), "vec": Signal(4), "token": Signal(1, 5), "grid": Signal(3, 4)},
        {"a_multi": Signal(2, 4), "b_single": Signal(1, 3)},
    ),
}
MODULES = {
    "enc": "encoder", "dyn": "recurrent", "dec": "decoder", "rew": "reward", "con": "goes_on", "pol": "actor",
    "val": "critic", "slowval": "slow_critic",
}  # fmt: skip


def file_of(name: str) -> Path:
    """The file in the folder that the environment variable names; what is absent there is beside the tests."""
    given = os.environ.get("SB3_PVP_GOLDEN")
    beside = [Path(given)] if given else []
    return next(path for folder in (*beside, DATA / "dreamer", DATA) if (path := folder / name).is_file())


def read_golden() -> Arrays:
    with np.load(file_of("golden.npz")) as arrays:
        return dict(arrays)


# -- names of weights


def our_name(name: str) -> str:
    """The name of a weight in ours: ``dyn/dynhid0/kernel`` of the original is ``recurrent.mix.layer.weight``."""
    module, rest = name.split("/", 1)
    rest = re.sub(r"kernel$|scale$", "weight", rest)
    layer = r"/(weight|bias)$"
    for pattern, ours in (
        (r"^head/(?:logits?)" + layer, r"mlp/output/\1"),
        (r"^head/(\w+)/(?:logits|mean)" + layer, r"outputs/of_\1/\2"),
        (r"^head/(\w+)/stddev" + layer, r"deviations/of_\1/\2"),
        (r"^mlp/linear(\d)" + layer, r"mlp/\1/layer/\2"),
        (r"^mlp/norm(\d)" + layer, r"mlp/\1/norm/\2"),
        (r"^mlp(\d)norm" + layer, r"mlp/\1/norm/\2"),
        (r"^mlp(\d)" + layer, r"mlp/\1/layer/\2"),
        (r"^(?:cnn|conv)(\d)norm" + layer, r"convolutions/\1/norm/\2"),
        (r"^(?:cnn|conv)(\d)" + layer, r"convolutions/\1/layer/\2"),
        (r"^vec/(\w+)/(?:pred|logits)" + layer, r"heads/of_\1/\2"),
        (r"^imgout" + layer, r"pixels/\1"),
        (r"^sp0" + layer, r"from_deter/\1"),
        (r"^sp1norm" + layer, r"from_stoch/0/norm/\1"),
        (r"^sp1" + layer, r"from_stoch/0/layer/\1"),
        (r"^sp2" + layer, r"from_stoch/output/\1"),
        (r"^spnorm" + layer, r"norm/\1"),
        (r"^dynin(\d)norm" + layer, r"from_\1/norm/\2"),
        (r"^dynin(\d)" + layer, r"from_\1/layer/\2"),
        (r"^dynhid0norm" + layer, r"mix/norm/\1"),
        (r"^dynhid0" + layer, r"mix/layer/\1"),
        (r"^dyngru" + layer, r"gates/\1"),
        (r"^obs(\d)norm" + layer, r"posterior/\1/norm/\2"),
        (r"^obs(\d)" + layer, r"posterior/\1/layer/\2"),
        (r"^obslogit" + layer, r"posterior/output/\1"),
        (r"^prior(\d)norm" + layer, r"prior/\1/norm/\2"),
        (r"^prior(\d)" + layer, r"prior/\1/layer/\2"),
        (r"^priorlogit" + layer, r"prior/output/\1"),
    ):
        rest, found = re.subn(pattern, ours, rest)
        if found:
            break
    rest = rest.replace("from_0", "from_deter").replace("from_1", "from_stoch").replace("from_2", "from_action")
    if module in ("rew", "con", "val", "slowval"):
        rest = rest.removeprefix("mlp/")
    if module == "dec":
        # The original counts the decoder's convolutions downwards.
        rest = re.sub(r"convolutions/(\d)", lambda match: f"convolutions/{2 - int(match[1])}", rest)
    return f"{MODULES[module]}/{rest}".replace("/", ".")


def our_layout(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """A weight or gradient of the original in the axes of ours."""
    if name.endswith("kernel") and array.ndim == 2:
        return array.T
    if name.endswith("kernel") and array.ndim == 4:
        return array.transpose(3, 2, 0, 1)
    return array


def weights_of(golden: Mapping[str, NDArray[Any]], case: str) -> dict[str, NDArray[Any]]:
    start = f"{case}/param/"
    names = [name.removeprefix(start) for name in golden if name.startswith(start) and "/retnorm/" not in name]
    return {name: golden[start + name] for name in names}


def load_weights(networks: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    networks.load_state_dict({our_name(name): tensor(our_layout(name, array)) for name, array in weights.items()})


def their_weights(networks: nn.Module, names: list[str], gradients: bool = False) -> Iterator[tuple[str, NDArray[Any]]]:
    """The weights of ours under the names and in the axes of the original."""
    ours = dict(networks.named_parameters())
    for name in names:
        weight = ours[our_name(name)]
        array = (weight.grad if gradients else weight.detach()).numpy()  # type: ignore[union-attr]
        if name.endswith("kernel") and array.ndim == 4:
            array = array.transpose(2, 3, 1, 0)
        yield name, (array.T if name.endswith("kernel") and array.ndim == 2 else array).copy()


def tensor(array: NDArray[Any]) -> th.Tensor:
    return th.from_numpy(np.array(array))


# -- a case


class Recorded(Draws):
    """Draws what the original drew."""

    def __init__(self, golden: Mapping[str, NDArray[Any]], step: str, signals: Mapping[str, Signal]) -> None:
        observed, imagined = (tensor(golden[f"{step}/sample/{name}"]) for name in ("post_stoch", "imag_stoch"))
        self.latents = iter([*observed.unbind(1), *imagined[:, 1:].unbind(1)])
        chosen = {key: tensor(golden[f"{step}/sample/imag_act/{key}"]) for key in signals}
        self.chosen = {key: values.reshape(*values.shape[:2], -1) for key, values in chosen.items()}
        self.moment = 0

    def latent(self, probs: th.Tensor) -> th.Tensor:
        return next(self.latents).reshape(probs.shape)

    def actions(self, distributions: Mapping[str, Any]) -> dict[str, th.Tensor]:
        self.moment += 1
        return {key: values[:, self.moment - 1] for key, values in self.chosen.items()}


def read_batch(golden: Mapping[str, NDArray[Any]], case: str) -> tuple[Sequences, Arrays]:
    """The batch of a case, and what the original's loss was given of it."""
    observations, actions = CASES[case]
    data = {
        name.removeprefix(f"{case}/data/"): array for name, array in golden.items() if name.startswith(f"{case}/data/")
    }
    trained = {key: tensor(array[:, 1:]) for key, array in data.items()}
    before = {key: tensor(data[key][:, :-1]) for key in actions}
    flat = {key: values.reshape(*values.shape[:2], -1) for key, values in before.items()}
    start = Latent(*(tensor(data[f"dyn/{part}"][:, 0]) for part in ("deter", "stoch")))
    seen = {
        key: trained[key] if signal.image else trained[key].reshape(*trained[key].shape[:2], -1)
        for key, signal in observations.items()
    }
    flags = (trained[key] for key in ("reward", "is_first", "is_last", "is_terminal"))
    given = {f"in/prevact/{key}": values.numpy() for key, values in before.items()}
    given |= {"in/carry/deter": start.deter.numpy(), "in/carry/stoch": start.stoch.numpy()}
    given |= {
        f"in/obs/{key}": values.numpy() for key, values in trained.items() if f"{case}/step0/in/obs/{key}" in golden
    }
    return Sequences(seen, encode_actions(actions, flat), *flags, start), given


def recompute_case(golden: Mapping[str, NDArray[Any]], case: str, all_steps: bool = True) -> Arrays:
    """All arrays of a case that are results, computed from those that are inputs."""
    networks = DreamerNetworks(*CASES[case], SIZE)
    weights = weights_of(golden, case)
    load_weights(networks, weights)
    scale = ReturnScale()
    scale.low.copy_(tensor(golden[f"{case}/param/retnorm/lo/value"]))
    scale.high.copy_(tensor(golden[f"{case}/param/retnorm/hi/value"]))
    batch, given = read_batch(golden, case)
    optimizer = LaProp(networks.trained(), lr=4e-4, warmup=0)
    results = {f"{case}/step0/{name}": array for name, array in given.items()}
    clear: dict[str, NDArray[np.bool_]] = {}
    names = [name for name in weights if not name.startswith("slowval/")]
    steps = (
        sorted({match[0] for name in golden if (match := re.match(rf"{case}/step\d+", name))})
        if all_steps
        else [f"{case}/step0"]
    )
    for step in steps:
        losses = dreamer_losses(networks, batch, scale, SETTINGS, Recorded(golden, step, CASES[case][1]))
        total = losses.total(SETTINGS.scales)
        optimizer.zero_grad()
        total.backward(retain_graph=True)
        found = {f"loss/{name}": of_states(loss, batch) for name, loss in losses.parts.items()}
        gradients = dict(their_weights(networks, names, gradients=True))
        lengths = np.array([np.linalg.norm(gradient.astype(float)) for gradient in gradients.values()])
        count = sum(gradient.size for gradient in gradients.values())
        found |= {"total_loss": total, "grad_norm": tensor(np.sqrt((lengths**2).sum()))}
        found |= {"grad_rms": tensor(np.sqrt((lengths**2).sum() / count))}
        found |= {"after/retnorm/lo": scale.low.clone(), "after/retnorm/hi": scale.high.clone()}
        if step.endswith("step0"):
            found |= stages(networks, batch, losses, scale)
            parameters = networks.trained()
            factors = dict(zip(parameters, clip_adaptively([p.grad for p in parameters], parameters, 0.3), strict=True))  # type: ignore[misc]
            ours = dict(networks.named_parameters())
            found |= {f"agc/{name}": factors[ours[our_name(name)]] for name in names}
            results |= {f"{step}/grad/{name}": gradient for name, gradient in gradients.items()}
            if all_steps:
                found["gradflow"] = gradient_flow(networks, losses.parts)
                results[f"{step}/gradflow_losses"] = np.array(sorted(losses.parts))
                results[f"{step}/gradflow_modules"] = np.array(list(MODULES)[:-1])
        optimizer.step()
        networks.follow(0.02)
        found["update_rms"] = optimizer.update_rms
        results |= {f"{step}/{name}": value.detach().numpy() for name, value in found.items()}
        for name, gradient in gradients.items():
            clear[name] = clear.get(name, True) & (abs(gradient) > 1e-5 * abs(gradient).max())
        if step in (steps[0], steps[-1]):
            # Where the gradient is but rounding noise, the first steps go as far as elsewhere, to either side.
            results |= {
                f"{step}/after/{name}": np.where(clear[name.removeprefix("slow")], array, np.nan)
                for name, array in their_weights(networks, list(weights))
            }
    return results


def of_states(loss: th.Tensor, batch: Sequences) -> th.Tensor:
    """A loss of imagined steps as that of the states that they start from; others as they are."""
    rows, length = batch.rewards.shape
    return loss.mean(1).reshape(rows, length) if len(loss) == rows * length else loss


def gradient_flow(networks: DreamerNetworks, parts: Mapping[str, th.Tensor]) -> th.Tensor:
    """The length of the gradient of each loss in each module, ``(losses, modules)``."""
    lengths = []
    for name in sorted(parts):
        lengths.append([])
        for module in list(MODULES.values())[:-1]:
            weights = list(getattr(networks, module).parameters())
            of_loss = th.autograd.grad(parts[name].mean(), weights, retain_graph=True, allow_unused=True)
            squares = [gradient.square().sum() for gradient in of_loss if gradient is not None]
            lengths[-1].append(sum(squares) ** 0.5)  # type: ignore[operator]
    return th.tensor(lengths)


def stages(networks: DreamerNetworks, batch: Sequences, losses: Any, scale: ReturnScale) -> dict[str, th.Tensor]:
    """What the losses were computed from, by the original's names."""
    observed, imagined, judged = losses.observed, losses.imagined, losses.judged
    features, imagined_features = observed.states.features(), imagined.features()
    posterior, prior = mixed_probs(observed.posterior), mixed_probs(observed.prior)
    rows = features.shape[:2]
    distributions = networks.actor(imagined_features)
    first = observed.posterior.flatten(0, 1).unsqueeze(1)
    found = {
        "tokens": networks.encoder(batch.observations),
        "post/deter": observed.states.deter,
        "post/logit": observed.posterior,
        "post/probs": posterior,
        "post/ent": latent_entropy(posterior),
        "prior/logit": observed.prior,
        "prior/probs": prior,
        "prior/ent": latent_entropy(prior),
        "kl_raw": latent_kl(posterior, prior),
        "rew/logits": networks.reward(features),
        "rew/pred": two_hot_mean(networks.reward(features)),
        "con/logit": networks.goes_on(features).squeeze(-1),
        "con/prob": networks.goes_on(features).squeeze(-1).sigmoid(),
        "val/logits": networks.critic(features),
        "val/pred": two_hot_mean(networks.critic(features)),
        "imag/deter": imagined.deter,
        "imag/logit": th.cat([first, networks.recurrent.prior(imagined.deter[:, 1:])], 1),
        "imag/rew": judged.rewards,
        "imag/con": judged.goes_on,
        "imag/val": judged.values,
        "imag/slowval": judged.slow_values,
        "imag/weight": judged.weights,
        "imag/ret": judged.returns,
        "imag/retoffset": scale.low.clone(),
        "imag/retscale": (scale.high - scale.low).clamp(min=1),
        "repl/boot": judged.returns[:, 0].reshape(rows),
        "repl/ret": losses.replay_returns,
        "repl/val": two_hot_mean(networks.critic(features)),
        "repl/slowval": two_hot_mean(networks.slow_critic(features)),
        "repl/loss_repval": losses.parts["repval"],
        "newcarry/deter": observed.states.deter[:, -1],
        "newcarry/stoch": observed.states.stoch[:, -1],
        "imag/loss_policy": losses.parts["policy"],
        "imag/loss_value": losses.parts["value"],
    }
    predictions = networks.decoder(observed.states)
    found |= {f"dec/{key}": values.squeeze(2) if key == "token" else values for key, values in predictions.items()}
    for key, each in distributions.items():
        found[f"imag/logp/{key}"] = each.log_prob(losses.actions[key])
        found[f"imag/ent/{key}"] = each.entropy()
        if isinstance(each, BoundedNormal):
            found |= {f"pol/{key}/mean": each.mean, f"pol/{key}/stddev": each.std}
        else:
            found[f"pol/{key}/logits"] = each.logits.squeeze(2) if each.logits.shape[2] == 1 else each.logits
    # The original has no such figure of an action of several choices.
    figures = losses.figures(scale, networks.actions)
    return found | {f"metric/{name}": value for name, value in figures.items() if name != "rand/a_multi"}


# -- comparisons


def tolerance(name: str) -> float:
    """The largest deviation, as a share of the largest number of the array (README.md)."""
    return 1e-3 if "/grad/" in name or "gradflow" in name else 1e-4


def deviation(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference, as a share of the largest number of theirs; infinite if the two do not compare.

    NaN in ours is a number that has no known value.
    """
    if ours.shape != theirs.shape or theirs.dtype.kind == "U":
        return 0.0 if np.array_equal(ours, theirs) else np.inf
    known = ~np.isnan(ours) if theirs.dtype.kind == "f" else np.ones(ours.shape, bool)
    ours, theirs = ours[known].astype(float), theirs[known].astype(float)
    if not len(ours):
        return np.inf
    return float(abs(ours - theirs).max() / (abs(theirs).max() or 1))


def differing(results: Arrays, golden: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """The deviations that are too large."""
    deviations = {}
    for name, array in results.items():
        # Of parameters, how far they were moved.
        optimized = re.fullmatch(r"unit/opt_\w+/param_after\d/(\w+)", name)
        start = golden[f"unit/opt_in/param/{optimized[1]}"] if optimized else None
        ours, theirs = (array, golden[name]) if start is None else (array - start, golden[name] - start)
        deviations[name] = deviation(ours, theirs)
    return {name: value for name, value in deviations.items() if not value <= tolerance(name)}


def changed(array: NDArray[Any]) -> NDArray[Any]:
    """The array with each number changed by one percent, 0 by 0.01; classes and flags are changed to the next one.

    Every other number grows and the rest shrink: some formulas are about proportions only.
    """
    if array.dtype.kind == "f":
        signs = np.where(np.arange(array.size) % 2, -1, 1).reshape(array.shape)
        return (array + 0.01 * signs * (array if array.any() else 1)).astype(np.float32)
    if array.dtype.kind == "U":
        return np.array([f"{name}x" for name in array])
    return ~array if array.dtype == bool else ((array.astype(int) + 1) % (int(array.max()) + 1)).astype(array.dtype)
