"""``sb3-pvp analyse``: what the grid and the pictures of the lanes cost."""
