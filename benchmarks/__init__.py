"""Everything that measures: ``python -m benchmarks NAME``, from a checkout. No part of the wheel."""
