"""What a model decides in a row does not depend on the rows beside it, to the bit."""

from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy, sampling
from sb3_pvp.policies.files.model_files import model_opponent


def new_model(seed: int, head_arch: Any) -> PvpPPO:
    arguments = {"net_arch": [64, 64], "head_arch": head_arch}
    return PvpPPO(AutoregressivePolicy, NhVecEnv(40), n_steps=4, seed=seed, policy_kwargs=arguments, device="cpu")


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_opponents_act_alike_in_batches_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (model_opponent(new_model(seed, ())) for seed in (0, 1))
    latents: list[Any] = []
    sample = sampling.sample_actions
    monkeypatch.setattr(sampling, "sample_actions", lambda *given: (latents.append(given[1]), sample(*given))[1])
    seen = NhVecEnv(40, seed=0).reset()
    observations, masks = seen["observation"], seen["action_mask"].astype(bool)
    words, starts, sampled = one.initial_state(range(40)), np.ones(40, bool), np.zeros(40, bool)
    whole, _ = one.predict_together([one], [observations], words, starts, sampled, masks)
    for start in range(0, 35, size):
        rows = np.r_[start : start + size, 35:40]  # beside those of another model
        given = [observations[rows[:size]], observations[rows[size:]]]
        acted, _ = one.predict_together([one, two], given, words[rows], starts[rows], sampled[rows], masks[rows])
        assert np.array_equal(acted[:size], whole[rows[:size]])
        assert th.equal(latents[-1][0][:size], latents[0][0][rows[:size]])


def test_log_probabilities_are_the_same_bits_in_batches_of_any_size() -> None:
    policy: Any = new_model(0, [64, 64]).policy.eval()
    env = NhVecEnv(40, seed=0, opponent="scripted")
    seen, numbers, rng = env.reset(), th.rand(40, 12), np.random.default_rng(0)
    for _ in range(20):  # some rows have no choice in a head, so that it has few others
        seen = env.step(env.fights.contract.random_action(env.action_masks(), rng))[0]
    tensors = {key: th.from_numpy(part) for key, part in seen.items()}
    actions, log_probs = policy.act(tensors, False, None, numbers)
    for size in (1, 2, 4, 5, 13, 20):
        for start in range(0, 40 - size + 1, size):
            part = slice(start, start + size)
            own = policy.act({key: each[part] for key, each in tensors.items()}, False, None, numbers[part])
            assert th.equal(own[0], actions[part])
            assert th.equal(own[1], log_probs[part])
