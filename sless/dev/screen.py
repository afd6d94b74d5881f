"""Terminal output while a folder is served. All methods are called from one thread."""

from typing import Protocol

from sless.domain.model import Invocation, LogLine


class Screen(Protocol):
    def note(self, text: str) -> None:
        """Progress: ready, changed, reloaded."""

    def problem(self, text: str) -> None:
        """Why calls cannot be served now; may contain several lines."""

    def build_line(self, text: str) -> None: ...

    def log_line(self, line: LogLine) -> None:
        """A log line of the function."""

    def call(self, invocation: Invocation) -> None:
        """A call that has ended."""
