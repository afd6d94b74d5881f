"""The function name that `sless dev DIR` derives from the folder's."""

from pathlib import Path

import pytest

from sless.cli.dev import name_of


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("hello", "hello"),
        ("api2", "api2"),
        ("v1-orders-2026", "v1-orders-2026"),
        ("My Api", "my-api"),
        ("2nd try!", "nd-try"),
        ("x" * 39 + "-9", "x" * 39),
        ("Ж", "function"),
    ],
)
def test_the_name_comes_from_the_folder(folder: str, name: str):
    assert name_of(Path(folder)) == name
