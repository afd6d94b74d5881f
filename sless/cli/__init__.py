"""The command line. A command's module is imported only when that command runs, so `sless version` does not pay for the server.

- Results go to stdout, everything else to stderr; no colours, no spinner when stderr is not a terminal.
- Exit codes: 0 success, 1 failure (the text says why), 2 wrong usage, 130 interrupted.
- Client commands use the REST interface only; `server_commands` connects settings, migrations and the server.
"""

from sless.cli.main import main

__all__ = ["main"]
