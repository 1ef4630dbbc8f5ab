"""Model files: `reading` refuses what is wrong with one, `model_files` loads it and lets it act."""
