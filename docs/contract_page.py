"""``python -m docs.contract_page [NAME ...]`` prints contracts as a Markdown page (all installed ones by default)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from sb3_pvp.contract import Contract, ContractError, SubAction, load_contract, registered_contracts

INTRODUCTION = """# Contracts

What a fighter sees and may do. Made by `make docs` from `sb3_pvp/games/osrs/contracts`; do not edit by hand.

An action is one choice for each head, in this order. *Flat* is the position in the flat mask, *Number* the integer that
the head takes. A choice with a rule is open only after the earlier choices that the rule names; if mask and rules leave
a head nothing, its choice 0 is open. *Partial* observations are unknown to the opponent, *constant* ones hardly change
within a fight."""


def render_page(contracts: list[Contract]) -> str:
    """The Markdown page about these contracts."""
    lines = [INTRODUCTION]
    for contract in contracts:
        lines += ["", *_contract_lines(contract)]
    return "\n".join(lines)


def _contract_lines(contract: Contract) -> Iterator[str]:
    yield f"## {contract.name}"
    yield ""
    yield f"{contract.num_heads} heads with {contract.num_flat_actions} choices;"
    yield f"{contract.num_observations} observations, {len(contract.partial_indices)} of them partial,"
    yield f"{len(contract.constant_indices)} constant."
    yield ""
    yield "| Head | Flat | Number | Choice | Meaning | Rule |"
    yield "|---|---|---|---|---|---|"
    for head in contract.heads:
        for number, action in enumerate(head.actions):
            flat = contract.flat_offset(head.id) + number
            yield f"| `{head.id}` | {flat} | {number} | `{action.id}` | {action.description} | {_rules(action)} |"
    yield ""
    yield "| Index | Observation | Meaning | Partial | Constant | Number |"
    yield "|---|---|---|---|---|---|"
    for index, seen in enumerate(contract.observations):
        flags = f"{'yes' if seen.partial else ''} | {'yes' if seen.constant else ''}"
        yield f"| {index} | `{seen.id}` | {seen.description} | {flags} | {seen.kind} |"


def _rules(action: SubAction) -> str:
    rules = {"all of": action.require_all, "any of": action.require_any, "none of": action.require_none}
    return "; ".join(f"{words} {', '.join(f'`{name}`' for name in ids)}" for words, ids in rules.items() if ids)


if __name__ == "__main__":
    try:
        print(render_page([load_contract(name) for name in sys.argv[1:] or registered_contracts()]))
    except ContractError as error:
        sys.exit(f"error: {error}")
