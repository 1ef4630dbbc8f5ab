"""The rules of the Dharok game, where they differ from those of the NH game (contract.md §6)."""
