"""How shells complete ``train`` and ``enjoy``, whose parsers are rl-zoo3's: it would take seconds to make them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer.core

from sb3_pvp.cli.usage import complete_game, complete_preset
from sb3_pvp.common.errors import installed

_BOTH = (
    "--algo --device --env --env-kwargs --gym-packages --help --n-timesteps --num-threads --progress --seed --verbose"
)
#: The long options of each command.
OPTIONS = {
    "train": f"""{_BOTH} --actors --challenge --changed --conf-file --configs --distribute --eval-env-kwargs
        --eval-episodes --eval-freq --hyperparams --initialize-from --log-folder --log-interval --log-keys-max
        --log-keys-mean --log-keys-sum --log-keys-video --log-zeros --logdir --max-total-trials --mlagents
        --n-eval-envs --n-evaluations --n-jobs --n-startup-trials --n-trials --no-optim-plots --num-cpus-per-actor
        --optimization-log-path --optimize-hyperparameters --preset --pruner --reference-fights --reference-pool
        --resume --sampler --save-freq --save-replay-buffer --search-space --storage --study-name --synchronous
        --tensorboard-log --track --trained-agent --trial-cpu-seconds --trial-id --truncate-last-trajectory --uuid
        --vec-env --wandb-entity --wandb-group --wandb-project-name --wandb-tags""".split(),
    "enjoy": f"""{_BOTH} --custom-objects --deterministic --exp-id --folder --load-best --load-checkpoint
        --load-last-checkpoint --n-envs --no-render --norm-reward --reward-log --stochastic""".split(),
}
_VALUES = {"--vec-env": ("dummy", "subproc"), "--sampler": ("auto", "random", "tpe")}
_VALUES["--pruner"] = ("halving", "hyperband", "median", "none")


def completions(command: str, before: list[str], incomplete: str) -> list[str]:
    """Returns what may follow the words ``before`` in a command line."""
    option = before[-1] if before else ""
    if option == "--preset":
        return complete_preset(incomplete)
    if option == "--env":
        return complete_game(incomplete)
    words: Iterable[str] = _VALUES.get(option, ())
    if option == "--algo":
        words = installed("sb3_pvp.algorithms")
    elif incomplete.startswith("-"):
        words = OPTIONS[command]
    return [word for word in words if word.startswith(incomplete)]


class ZooCommand(typer.core.TyperCommand):
    """A command that passes its words on, and completes them."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Returns items for the shell; none with versions of Typer that keep their class elsewhere."""
        item: Any = getattr(typer.core, "CompletionItem", None)
        words = completions(str(self.name), ctx.args, incomplete) if item is not None else []
        return [item(word) for word in words]
