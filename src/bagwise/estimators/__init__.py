"""scikit-learn estimators: they pick parts, most without mathematics of their own."""
