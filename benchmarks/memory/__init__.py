"""`python -m benchmarks memory`: what memory is worth, and what it costs."""
