"""Inventory of a network: parts, bisection, path diversity, cost, power and failures."""
