"""What makes a fighter hard to exploit: recipes of self-play beside each other (docs/recipes.md)."""
