"""Model files: `reading` refuses what is wrong with one, `model_files` loads it, `model_opponent` lets it act."""
