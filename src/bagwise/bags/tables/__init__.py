"""Tables, in memory or on disk, as the arrays that make bags."""
