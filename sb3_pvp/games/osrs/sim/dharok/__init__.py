"""The rules of the Dharok game, as far as they differ from those of the NH game (contract.md §6)."""
