"""Real services that tests run beside sless, each started by the test run itself and ended by the process id it got.

A service that is not installed is a skip on a laptop and a failure where CI=true.
"""

import os
from typing import NoReturn

import pytest


def unavailable(what: str, install: str) -> NoReturn:
    lacking(f"{what} is not here; on Debian and Ubuntu: apt-get install {install}")


def lacking(text: str) -> NoReturn:
    """What a test needs cannot be had, and why."""
    if os.environ.get("CI") == "true":
        pytest.fail(text, pytrace=False)
    pytest.skip(text)
