"""DreamerV3: a model of the world learnt from replay; actor and critic learn inside it (dreamer.md §4.1)."""
