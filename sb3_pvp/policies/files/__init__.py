"""Model files: zips and fighter files, their descriptions, those that ship, and the opponents in them."""
