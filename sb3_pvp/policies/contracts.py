"""Which contract's rules between heads a policy obeys."""

from __future__ import annotations

from sb3_pvp.contract import Contract, load_contract
from sb3_pvp.contract.registry import loadable_contracts
from sb3_pvp.policies.features import NormalizedFeatures

AUTO = "auto"


def find_contract(
    name: str | Contract | None, head_sizes: tuple[int, ...], features: NormalizedFeatures
) -> Contract | None:
    """The contract of that name or file; for ``"auto"`` the registered one with these heads and observations, if any.

    A contract stands for itself. Raises ``ValueError`` if the heads are not the contract's, or if several fit.
    """
    if name is None:
        return None
    if name == AUTO:
        seen = head_sizes, features.num_public // features.num_frames
        fitting = [each for each in loadable_contracts() if (each.head_sizes, each.num_observations) == seen]
        if len(fitting) > 1:
            names = ", ".join(each.name for each in fitting)
            raise ValueError(f"several contracts have these heads and observations: {names}; name one in policy_kwargs")
        return fitting[0] if fitting else None
    contract = name if isinstance(name, Contract) else load_contract(name)
    if contract.head_sizes != head_sizes:
        raise ValueError(
            f"The action heads of the environment, {head_sizes}, are not those of contract {contract.name}, "
            f"{contract.head_sizes}; pass policy_kwargs=dict(contract=...)"
        )
    return contract
