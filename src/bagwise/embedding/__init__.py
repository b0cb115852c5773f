"""From points to the posterior of each bag's mean embedding."""
