"""Starts the Python runtime of sless; the parts are in `sless_runtime/`, the contract in `runtimes/README.md`."""

import sys


def main() -> None:
    """Removes this folder from `sys.path`, so that user code cannot import the runtime's modules by accident."""
    own_folder = sys.path[0]
    from sless_runtime import main as runtime

    sys.path.remove(own_folder)
    runtime.run()


if __name__ == "__main__":
    main()
