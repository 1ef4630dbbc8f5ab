"""Opponents: loading them, what their seat sees, and acting for many fights in batches."""
