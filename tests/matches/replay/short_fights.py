"""How long the fights of these tests are at most."""

TICKS = 50
LONG = {"max_episode_ticks": TICKS}
