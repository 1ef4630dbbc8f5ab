"""Self-play in games small enough for exact exploitability, at every point of the curve (docs/exploitability.md)."""
