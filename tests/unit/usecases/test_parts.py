import pytest

from sless.errors import Code, SlessError
from sless.usecases.parts import merge_until_written

CHANGED = SlessError(Code.PRECONDITION_FAILED, "changed")


def losing(times: int):
    """Return an attempt that loses to other writers `times` times."""
    left = [times]

    def attempt() -> str:
        if left[0]:
            left[0] -= 1
            raise CHANGED
        return "written"

    return attempt


@pytest.mark.parametrize("if_match", [None, "*", " * "])
def test_an_unconditional_merge_is_repeated_until_it_wins(if_match):
    assert merge_until_written(if_match, losing(30)) == "written"


def test_a_conditional_merge_fails_at_the_first_change():
    with pytest.raises(SlessError) as caught:
        merge_until_written('"x-1"', losing(1))
    assert caught.value is CHANGED


def test_other_errors_are_raised_at_once():
    def attempt() -> str:
        raise SlessError(Code.CONFLICT, "lower run_id")

    with pytest.raises(SlessError, match="lower run_id"):
        merge_until_written(None, attempt)
