"""Numbers in the console's pages."""

import pytest

from sless.http.console.formats import bytes_of, milliseconds_of, percent_of, tenths_of, ticks_of


@pytest.mark.parametrize(
    ("format_", "value", "english", "russian"),
    [
        (bytes_of, 0, "0 B", "0 Б"),
        (bytes_of, 1020, "1020 B", "1020 Б"),
        (bytes_of, 2500, "2.44 KB", "2,44 КБ"),
        (bytes_of, 5 * 2**30, "5 GB", "5 ГБ"),
        (bytes_of, 2**42, "4100 GB", "4100 ГБ"),
        (milliseconds_of, None, "–", "–"),
        (milliseconds_of, 1.7249, "1.72 ms", "1,72 мс"),
        (milliseconds_of, 999.9, "1000 ms", "1000 мс"),
        (milliseconds_of, 30_000, "30 s", "30 с"),
        (percent_of, 9.6774, "9.7 %", "9,7 %"),
        (percent_of, 100, "100 %", "100 %"),
        (tenths_of, 100.84, "100.8", "100,8"),
    ],
)
def test_in_both_languages(format_, value, english: str, russian: str) -> None:
    assert [format_(value, language).replace("\u00a0", " ") for language in ("en", "ru")] == [english, russian]


def test_the_path_of_a_chart() -> None:
    assert ticks_of([[0, 0], [10, 0], [5, 1]], 0, 23) == "M12 23V1M20 23V12"
    assert ticks_of([[0, 0], [10, 0], [5, 1]], 1, 23) == "M20 23V20.8"
