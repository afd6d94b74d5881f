"""Starts the Python runtime of sless; the parts are in `sless_runtime/`, the contract in `runtimes/README.md`."""

import sys


def main() -> None:
    """Takes this folder off `sys.path` before any code of a user is imported: nothing of ours can then be taken for a module of theirs."""
    own_folder = sys.path[0]
    from sless_runtime import main as runtime

    sys.path.remove(own_folder)
    runtime.run()


if __name__ == "__main__":
    main()
