"""Room on this machine's disks."""

import os
from pathlib import Path

LEAST_FREE_BYTES = 1 * 2**20
"""With less, files that are just being written are about to break off."""


def is_full(folder: Path) -> bool:
    """Whether its disk has no room for another file worth speaking of. Quotas are not seen here."""
    found = os.statvfs(folder)
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return blocks * found.f_frsize < LEAST_FREE_BYTES or (found.f_files > 0 and found.f_ffree == 0)
