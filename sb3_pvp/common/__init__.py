"""Tools for all other packages, of which they import none: validation, names, files, processes, random numbers."""
