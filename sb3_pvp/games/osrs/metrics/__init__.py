"""The metrics of these fights (self-play.md §11.6)."""
