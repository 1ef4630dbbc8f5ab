"""What is measured in these fights (self-play.md §11.6)."""
