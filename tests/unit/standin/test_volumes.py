"""Translation of container paths to paths of this machine."""

import sys

import pytest

from tests.kube.volumes import HERE, translated

PATHS = {"/tmp": "/pods/a/tmp", "/app/function": "/pods/a/code"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/tmp", "/pods/a/tmp"),
        ("/tmp/x", "/pods/a/tmp/x"),
        ("--into=/tmp/x,/app/function", "--into=/pods/a/tmp/x,/pods/a/code"),
        ("/tmpfiles", "/tmpfiles"),
        ("/var/tmp", "/var/tmp"),
        ("cat '/tmp/a' > /app/function/b", "cat '/pods/a/tmp/a' > /pods/a/code/b"),
        (sys.prefix + "/bin/python", sys.prefix + "/bin/python"),
    ],
)
def test_mounted_paths_are_translated(text: str, expected: str):
    assert translated(text, PATHS) == expected


def test_a_checkout_below_a_mounted_path_is_not_translated():
    below = {path.rsplit("/", 1)[0]: "/pods/a" for path in HERE}
    for path in HERE:
        assert translated(f"{path}/bin/python /app/function/x", {**PATHS, **below}) == f"{path}/bin/python /pods/a/code/x"
