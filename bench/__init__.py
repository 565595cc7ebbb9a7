"""Benchmarks, as ratios to fixed anchors. `python -m bench` prints the table (see docs/performance.md)."""
