"""Figures: one file each, with draw(results) -> matplotlib Figure."""
