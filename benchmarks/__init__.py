"""Benchmarks: scripts that measure the documented numbers, and the studies of the paper."""
