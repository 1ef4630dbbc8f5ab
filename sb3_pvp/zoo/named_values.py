"""``NAME:VALUE`` on the command line of rl-zoo3."""

from __future__ import annotations

import argparse
from typing import Any

from rl_zoo3.utils import StoreDict

from sb3_pvp.common.errors import Refusal


class NamedValues(StoreDict):
    """rl-zoo3's ``StoreDict``, whose values are Python; for what is none of that it says what is wrong."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        """Reads the values of an option; raises `Refusal` if one is no Python."""
        read: dict[str, Any] = {}
        for value in values:
            try:
                super().__call__(parser, namespace, [value], option_string)  # type: ignore[no-untyped-call]
            except Exception as error:  # whatever Python says about it
                raise Refusal(
                    f"{option_string} takes NAME:VALUE with a VALUE in Python, where text is in quotes within quotes, "
                    f"such as \"opponent:'scripted'\"; got {value!r}: {error}"
                ) from error
            read |= getattr(namespace, self.dest)
        setattr(namespace, self.dest, read)
