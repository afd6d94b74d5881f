"""The command line. The module of a command is only imported when the command runs, so that `sless version` does not import the server.

- Results go to stdout, everything else to stderr; no colours, no spinner when stderr is not a terminal.
- Exit codes: 0 success, 1 failure (the text says why), 2 wrong usage, 130 interrupted.
- Client commands use the REST interface only; `server_commands` connects settings, migrations and the server.
"""

from sless.cli.main import main, run

__all__ = ["main", "run"]
