"""Makes the runtime's modules importable, as its launcher does."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "runtimes" / "python3.11"))
