"""A package by file, since libraries bring one of the same name, such as opensimplex for Crafter."""
