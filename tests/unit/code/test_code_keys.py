"""Keys of uploads."""

import pytest

from sless.code.folder import check_key, new_code_key

SHA = "a" * 64


def test_equal_content_gets_its_own_key():
    first, second = new_code_key("sless-0", "w1", SHA), new_code_key("sless-0", "w1", SHA)
    assert first != second
    assert first.startswith(f"sless-0/w1/{SHA}-")


@pytest.mark.parametrize("key", ["", "a/b/c.zip", f"../w1/{SHA}-u.zip", f"ns/../{SHA}-u.zip", f"ns/w1/{SHA}.zip", f"ns/w1/{SHA}-u.zip/x"])
def test_paths_are_not_valid_keys(key):
    with pytest.raises(ValueError, match="expected a key"):
        check_key(key)
