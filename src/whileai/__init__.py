"""Graders for groups of rollouts: write them, test them, check them, train on them."""

__version__ = "0.1.0"
