"""What is shown while a folder is served. All calls come from one thread."""

from typing import Protocol

from sless.domain.model import Invocation, LogLine


class Screen(Protocol):
    def note(self, text: str) -> None:
        """Progress: ready, changed, reloaded."""

    def problem(self, text: str) -> None:
        """Why calls cannot be answered now; may have several lines."""

    def build_line(self, text: str) -> None: ...

    def log_line(self, line: LogLine) -> None:
        """A line that the function wrote."""

    def call(self, invocation: Invocation) -> None:
        """A call that has ended."""
