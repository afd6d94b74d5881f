"""`python -m sless.cli`: the demo starts its server this way, whether from a checkout, an installed package or the unpacked zipapp."""

import sys

from sless.cli import main

if __name__ == "__main__":
    sys.exit(main())
