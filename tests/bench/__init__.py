"""The bench: compares the real server with other servers in one table of ratios. `python -m tests.bench --help`."""
