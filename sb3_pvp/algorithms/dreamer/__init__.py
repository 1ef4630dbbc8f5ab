"""DreamerV3: a model of the world learnt from replay, and an actor and a critic that learn inside it (dreamer.md §4.1).

The parts that the original's own numbers check: networks, losses, optimiser. No algorithm of Stable-Baselines3 yet.
"""
