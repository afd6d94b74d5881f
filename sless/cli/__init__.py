"""The command line. Each command's module is imported only when that command runs: `sless version` must not pay for the server.

- Results go to stdout, everything else to stderr; no colours, no spinner when stderr is not a terminal.
- Exit codes: 0 done, 1 it failed (the text says why), 2 wrong usage, 130 interrupted.
- The client's commands speak REST only; the server's commands (`server_commands`) glue settings, migration and the server together.
"""

from sless.cli.main import main

__all__ = ["main"]
