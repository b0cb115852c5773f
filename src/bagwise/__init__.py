"""bagwise."""
