"""`python -m sless.cli`: how the demo starts its server, from a checkout, an installed package or the unpacked zipapp alike."""

import sys

from sless.cli import main

if __name__ == "__main__":
    sys.exit(main())
