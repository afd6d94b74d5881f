"""Starts the runtime in a container.

Unpacks code that was mounted as a tar.gz (small code only; larger code is part of the image), then replaces itself with the runtime, so
that signals reach the runtime.
"""

import os
import shutil
import sys
import tarfile

CODE_DIR = "/app/function"


def main() -> None:
    archive = os.environ.pop("SLESS_CODE_ARCHIVE", "")
    if archive:
        folder = os.environ.get("SLESS_CODE_DIR", CODE_DIR)
        try:
            empty(folder)
            unpack(archive, folder)
        except (OSError, EOFError, tarfile.TarError) as error:
            sys.exit(f"cannot unpack the code in {archive} into {folder}: {error}")
    runtime = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runtime.py")
    os.execv(sys.executable, [sys.executable, "-E", "-s", "-S", runtime])


def empty(folder: str) -> None:
    """Empties the folder: a restarted container finds whatever the handler left in it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


def unpack(archive: str, folder: str) -> None:
    with tarfile.open(archive, "r:gz") as packed:
        if hasattr(tarfile, "data_filter"):  # since Python 3.11.4; refuses paths that lead out of the folder
            packed.extractall(folder, filter="data")
        else:
            packed.extractall(folder)


if __name__ == "__main__":
    main()
