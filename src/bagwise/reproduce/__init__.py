"""Reproduce the paper: studies as data, a runner that can be stopped, tables, figures, a page."""
