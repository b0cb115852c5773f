"""Experiments: the demo, the benchmark and the comparison with the paper."""
