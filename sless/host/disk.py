"""Free disk space."""

import os
from pathlib import Path

LEAST_FREE_BYTES = 1 * 2**20
"""With less free space, files being written may be cut off."""


def is_full(folder: Path) -> bool:
    """Whether the folder's disk is full. Does not detect exhausted quotas."""
    found = os.statvfs(folder)
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return blocks * found.f_frsize < LEAST_FREE_BYTES or (found.f_files > 0 and found.f_ffree == 0)
