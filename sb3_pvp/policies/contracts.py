"""Which contract a policy has the rules of."""

from __future__ import annotations

from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.game.contract.model import loadable_contracts
from sb3_pvp.policies.features import NormalizedFeatures

AUTO = "auto"


def find_contract(
    name: str | Contract | None, head_sizes: tuple[int, ...], features: NormalizedFeatures
) -> Contract | None:
    """Returns the contract with that name or file; for ``"auto"`` the registered one that fits the spaces, if any.

    Raises `ValueError` if the contract has other heads, or ``"auto"`` finds several contracts.
    """
    if name == AUTO:
        shape = head_sizes, features.num_public // features.num_frames
        fitting = [each for each in loadable_contracts() if (each.head_sizes, each.num_observations) == shape]
        if len(fitting) > 1:
            names = ", ".join(each.name for each in fitting)
            raise ValueError(f"several contracts have these heads and observations: {names}; name one in policy_kwargs")
        return fitting[0] if fitting else None
    contract = name if name is None or isinstance(name, Contract) else load_contract(name)
    if contract is not None and contract.head_sizes != head_sizes:
        raise ValueError(
            f"The action heads of the environment, {head_sizes}, are not those of contract {contract.name}, "
            f"{contract.head_sizes}; pass policy_kwargs=dict(contract=...)"
        )
    return contract
