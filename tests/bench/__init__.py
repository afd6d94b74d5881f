"""The bench: one run of the real server against other servers, one table of ratios. `python -m tests.bench --help`."""
