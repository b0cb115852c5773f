"""Heads: fitted regressions from the posterior of an embedding to a label."""
