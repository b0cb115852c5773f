"""Bags of points, in memory or on disk, and every way to make them; every input error."""
