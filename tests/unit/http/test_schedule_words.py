"""Schedules in words."""

import pytest

from sless.http.schedule_words import words_of


@pytest.mark.parametrize(
    ("schedule", "english", "russian"),
    [
        ("* * * * *", "every minute", "каждую минуту"),
        ("30 4 * * 1-5", "at 04:30, Monday to Friday", "в 04:30, пн – пт"),
        ("*/15 * * * *", "every 15 minutes", "каждые 15 мин."),
        ("0 * * * *", "every hour", "каждый час"),
        ("5,35 * * * *", "every hour at minute 5, 35", "каждый час, минута 5, 35"),
        ("10 */6 * * *", "every 6 hours at minute 10", "каждые 6 ч., минута 10"),
        ("0 9,18 * * *", "at 09:00 and 18:00, every day", "в 09:00 и 18:00, каждый день"),
        ("0 0 1,15 6-8 *", "at 00:00, on day 1, 15 of the month, in June to August", "в 00:00, 1, 15 числа, в июне – августе"),
        ("*/5 8-18 * * 1,3", "every 5 minutes, 08:00–18:59, on Monday and Wednesday", "каждые 5 мин., 08:00–18:59, в понедельник и среду"),
        ("0 0 13 * FRI", "at 00:00, on day 13 of the month or on Friday", "в 00:00, 13 числа или в пятницу"),
        ("0 12 * jan,jul 7", "at 12:00, on Sunday, in January and July", "в 12:00, в воскресенье, в январе и июле"),
        ("@weekly", "at 00:00, on Sunday", "в 00:00, в воскресенье"),
        ("7-9 3 * * *", "at minute 7-9 of hour 3", "минута 7-9, час 3"),
        ("0 0 L * *", "at 00:00, on day l of the month", "в 00:00, l числа"),
        ("0 0 * * 5#2", "0 0 * * 5#2", "0 0 * * 5#2"),
    ],
)
def test_words(schedule: str, english: str, russian: str) -> None:
    assert (words_of(schedule), words_of(schedule, "ru")) == (english, russian)
