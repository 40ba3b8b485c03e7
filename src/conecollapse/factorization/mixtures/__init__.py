"""Mixtures: pure components and how much of each is in every sample."""
