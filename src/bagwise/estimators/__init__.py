"""scikit-learn estimators: they pick parts, and have no mathematics of their own."""
