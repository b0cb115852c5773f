"""What a user holds: a distribution per bag, its variance by cause, and how to score it."""
