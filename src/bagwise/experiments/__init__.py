"""Experiments: the demo, the benchmarks, calibration, and the paper reproduced."""
