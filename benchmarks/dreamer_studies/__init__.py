"""How DreamerV3 scales, how it compares, and whether it runs for hours: studies that are made in parts."""
