"""Runs sless from a checkout: `python sless.py serve` after `pip install -r requirements.txt`."""

# `sless` is the package next to this file: a package folder is found before a module of the same name.
from sless.cli import run

if __name__ == "__main__":
    run()
