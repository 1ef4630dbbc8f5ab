"""A scene as a picture: the fight seen from above, what both fighters have left, and what each head chose.

All of it is drawn with pygame, on a surface in memory: no display is needed. Import its modules through
`sb3_pvp.envs.viewer`, which says what to install when pygame is missing.
"""
