"""Actors on two nodes of a Ray cluster: the same learning as in one process, whatever is lost on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.actors import ray_actors, room_for_actors, use_ray
from sb3_pvp.algorithms.actors.fleet import Patience
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.game import WorldError
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.policies import AutoregressivePolicy

th.set_num_threads(1)
pytestmark = pytest.mark.slow  # a cluster takes 20 seconds to start

ROWS, STEPS = 16, 8
ROLLOUT = ROWS * STEPS


def new_model(**kwargs: Any) -> PvpPPO:
    env = NhVecEnv(ROWS, seed=3, opponent="scripted", max_episode_ticks=11)
    settings: dict[str, Any] = {"n_steps": STEPS, "batch_size": 64, "n_epochs": 2, "seed": 1, "device": "cpu"}
    return PvpPPO(AutoregressivePolicy, env, **(settings | kwargs))


def weights(model: PvpPPO) -> list[float]:
    return th.cat([part.flatten().double() for part in model.policy.state_dict().values()]).tolist()


def in_actors(model: PvpPPO, function: Callable[[Any], Any]) -> list[Any]:
    """Returns the results of a function that is called in all actors."""
    import ray

    seats = model.env._fleet._seats  # type: ignore[union-attr]
    return ray.get([seat.handle.__ray_call__.remote(function) for seat in seats])


@pytest.fixture(scope="module")
def models(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PvpPPO, PvpPPO]]:
    """A model that was trained in this process, and the same one that was trained by two actors.

    Their opponent is a file, which the second node has to fetch.
    """
    folder: Path = tmp_path_factory.mktemp("run")
    new_model(seed=7).save(folder / "rival.zip")
    trained = []
    for is_distributed in (False, True):
        model = new_model(synchronous=is_distributed)
        if is_distributed:
            use_ray(model)
        model.learn(ROLLOUT)
        model.env.env_method("set_opponent", OpponentChoice(str(folder / "rival.zip")))  # type: ignore[union-attr]
        model.learn(3 * ROLLOUT, reset_num_timesteps=False)
        trained.append(model)
    yield trained[0], trained[1]
    trained[1].env.close()  # type: ignore[union-attr]  # for tests that need the cluster's CPUs


@pytest.mark.slow
def test_actors_on_two_nodes_remember_as_one_process_does(cluster: Any) -> None:
    trained = []
    for is_distributed in (False, True):
        memory = {"kind": "gru", "size": 16, "length": STEPS}
        model = new_model(synchronous=is_distributed, policy_kwargs={"net_arch": [16], "memory": memory})
        if is_distributed:
            use_ray(model)
        trained.append(weights(model.learn(3 * ROLLOUT)))
        assert model.env is not None
        model.env.close()
    assert trained[0] == trained[1]


def test_there_is_room_for_as_many_actors_as_the_cluster_has_cpus(models: Any) -> None:
    assert room_for_actors() == 2
    assert models[1].actors == 2
    with pytest.raises(ValueError, match="has 2 CPUs, and an actor gets 3"):
        room_for_actors(3)


def test_actors_on_two_nodes_play_what_one_process_plays(models: tuple[PvpPPO, PvpPPO]) -> None:
    alone, model = models
    assert weights(model) == weights(alone)
    assert model.num_timesteps == alone.num_timesteps == 4 * ROLLOUT
    # The one that does not run where the file is has fetched it.
    copies = in_actors(model, lambda actor: actor._fetched and [*map(str, Path(actor._fetched._root.name).glob("*/*"))])
    names = [files and [Path(file).name for file in files] for files in copies]
    assert names in ([None, ["rival.zip"]], [["rival.zip"], None])


@pytest.mark.slow
def test_overlapping_actors_on_two_nodes_play_what_a_local_one_plays(cluster: Any) -> None:
    trained = []
    for is_distributed in (False, True):
        model = new_model(actors=1)
        if is_distributed:
            use_ray(model, 2, 0.0)
        model.learn(5 * ROLLOUT)
        trained.append((model.num_timesteps, weights(model)))
        assert model.env is not None
        model.env.close()
    assert trained[0] == trained[1]


def test_an_actor_that_is_killed_is_left_out_of_one_rollout_and_replaced(models: tuple[PvpPPO, PvpPPO]) -> None:
    model, steps = models[1], models[1].num_timesteps
    pids = in_actors(model, lambda _: os.getpid())
    env: Any = model.env

    class Killer(BaseCallback):
        def _on_rollout_start(self) -> None:
            if self.num_timesteps == steps:
                os.kill(pids[0], signal.SIGKILL)

        def _on_step(self) -> bool:
            return True

    with pytest.warns(UserWarning, match="actor 0 has died"):
        model.learn(ROLLOUT // 2, callback=Killer(), reset_num_timesteps=False)
    # Its rows do not count, and nothing was learned from them.
    assert model.num_timesteps == steps + ROLLOUT // 2
    assert model.rollout_buffer.n_envs == ROWS // 2
    env._fleet._await_starts(2)
    model.learn(ROLLOUT, reset_num_timesteps=False)
    assert model.num_timesteps == steps + ROLLOUT // 2 + ROLLOUT
    assert pids[0] not in in_actors(model, lambda _: os.getpid())


def test_errors_in_an_actor_are_raised_as_they_are(models: tuple[PvpPPO, PvpPPO]) -> None:
    env: Any = models[1].env
    with pytest.raises(FileNotFoundError, match="gone.zip"):
        env.env_method("set_opponent", OpponentChoice("gone.zip"))
        env.env_method("pop_metrics")


def test_an_actor_that_hangs_is_lost_and_one_that_is_lost_too_often_is_an_error(
    models: tuple[PvpPPO, PvpPPO], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models[1]
    monkeypatch.setattr(Patience, "LEAST", 1.0)
    monkeypatch.setattr(Patience, "FACTOR", 0.0)
    monkeypatch.setattr(ray_actors, "MAX_LOSSES", 0)
    os.kill(in_actors(model, lambda _: os.getpid())[1], signal.SIGSTOP)
    with pytest.raises(WorldError, match="actor 1 hangs"):
        model.learn(ROLLOUT, reset_num_timesteps=False)
