import pytest

from sless.errors import Code, storage_full
from sless.proxy.failure import code_of


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("out of memory: used 140 of 128 MB", Code.OUT_OF_MEMORY),
        ("function exited with code 3", Code.FUNCTION_EXITED),
        ("function was ended by SIGSEGV (segmentation fault)", Code.FUNCTION_BROKE_OFF),
        (storage_full("no run can start").message, Code.STORAGE_FULL),
        ("function exited with code 3\nmy disk is full, I am out of memory", Code.FUNCTION_EXITED),
        ("function exited with code 2: panic: my disk is full, I am out of memory", Code.FUNCTION_EXITED),
        ("function was ended by SIGKILL (killed)\nchild exited", Code.FUNCTION_BROKE_OFF),
    ],
)
def test_the_code_depends_only_on_the_platforms_message(reason: str, code: Code) -> None:
    assert code_of(reason) is code
