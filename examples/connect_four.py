"""Connect four of PettingZoo, ``pip install 'sb3-pvp[examples]'``; ``python examples/connect_four.py`` trains it."""

from pettingzoo.classic import connect_four_v3

from sb3_pvp.games.pettingzoo import PettingZooGame

CONNECT_FOUR = PettingZooGame(connect_four_v3.raw_env)

if __name__ == "__main__":
    from league_training import main

    main(["connect_four:CONNECT_FOUR", "--steps", "80000"])
