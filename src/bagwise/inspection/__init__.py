"""To look at: pictures and the report."""
