"""The server's own log: one line per event on stderr, text on a terminal, JSON elsewhere."""

import json
import logging
import sys
from datetime import UTC, datetime


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: str, *, as_json: bool | None = None) -> None:
    """Sets up the root logger; `as_json` None means: JSON unless stderr is a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    if as_json if as_json is not None else not sys.stderr.isatty():
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # A tick that is still going on when the next is due is no news: it looks at everything once more anyway.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    for noisy in ("alembic", "urllib3", "botocore", "gunicorn.access", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
