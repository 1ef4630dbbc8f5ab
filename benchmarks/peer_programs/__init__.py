"""The programs that ``python -m benchmarks peers`` runs, one per learner, each in its own interpreter."""
