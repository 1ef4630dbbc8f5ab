"""Recorded fights, with the models' probabilities and values, and a self-contained HTML page that replays them."""

from sb3_pvp.matches.replay.page import show_fight, write_replay_page
from sb3_pvp.matches.replay.record import record_fight
from sb3_pvp.matches.replay.recording import Recording, load_fight, save_fight
from sb3_pvp.matches.replay.video import write_video

__all__ = [
    "Recording",
    "load_fight",
    "record_fight",
    "save_fight",
    "show_fight",
    "write_replay_page",
    "write_video",
]
