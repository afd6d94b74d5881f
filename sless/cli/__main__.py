"""`python -m sless.cli`: the demo starts its server this way, whether from a checkout, an installed package or the unpacked zipapp."""

from sless.cli import run

if __name__ == "__main__":
    run()
