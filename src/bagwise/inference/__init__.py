"""Inference: how the weights of the regression are found."""
