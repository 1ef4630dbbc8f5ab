"""Files of other systems."""
