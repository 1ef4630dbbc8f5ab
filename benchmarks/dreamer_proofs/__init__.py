"""Whether DreamerV3 learns: small games with bars that the original reaches (dreamer.md §5.4), and pictures."""
