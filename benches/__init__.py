"""Benchmarks: `make bench` measures the package, `make bench-peers` compares it with what a user would pick instead."""
