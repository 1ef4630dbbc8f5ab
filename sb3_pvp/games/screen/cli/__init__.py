"""The commands of games behind a screen."""
