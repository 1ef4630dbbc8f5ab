"""A scene as a picture: the fight from above, the state of both fighters, and their choices.

It is drawn with pygame on a surface in memory; no display is needed. Import these modules through
`sb3_pvp.envs.renderer`, whose error says what to install when pygame is missing.
"""
