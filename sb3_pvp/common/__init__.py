"""The tools of all: names, arguments, files, locks, processes, random words. Knows nothing else."""
