"""Cron schedules in words, in the languages of the console: `30 4 * * 1-5` is "at 04:30, Monday to Friday"."""

import re
from dataclasses import dataclass

from sless.domain.schedule import ALIASES

_NAMES = {name: str(number) for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_MONTH_NAMES = {
    name: str(number)
    for number, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """`weekdays` starts on Sunday, `months` in January. Forms for "every n" are chosen by `form_of` of the language."""

    every_minute: str
    every_minutes: str
    every_hour: str
    every_hours: str
    minute_of_hour: str
    at: str
    minutes_of_hours: str
    every_day: str
    days: str
    step_days: str
    weekdays: tuple[str, ...]
    on_weekday: str
    weekdays_from_to: str
    range_names: tuple[str, ...]
    months: tuple[str, ...]
    in_month: str
    and_: str
    or_: str


_ENGLISH = _Words(
    every_minute="every minute", every_minutes="every {n} minutes", every_hour="every hour", every_hours="every {n} hours",
    minute_of_hour="{when} at minute {minutes}", at="at {times}", minutes_of_hours="at minute {minutes} of hour {hours}",
    every_day="every day", days="on day {days} of the month", step_days="every {n} days",
    weekdays=("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    on_weekday="on {days}", weekdays_from_to="{first} to {last}",
    range_names=("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    months=("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"),
    in_month="in {months}", and_=" and ", or_=" or ",
)  # fmt: skip
_RUSSIAN = _Words(
    every_minute="каждую минуту", every_minutes="каждые {n} мин.", every_hour="каждый час", every_hours="каждые {n} ч.",
    minute_of_hour="{when}, минута {minutes}", at="в {times}", minutes_of_hours="минута {minutes}, час {hours}",
    every_day="каждый день", days="{days} числа", step_days="каждые {n} дн.",
    weekdays=("воскресенье", "понедельник", "вторник", "среду", "четверг", "пятницу", "субботу"),
    on_weekday="в {days}", weekdays_from_to="{first} – {last}",
    range_names=("вс", "пн", "вт", "ср", "чт", "пт", "сб"),
    months=("январе", "феврале", "марте", "апреле", "мае", "июне", "июле", "августе", "сентябре", "октябре", "ноябре", "декабре"),
    in_month="в {months}", and_=" и ", or_=" или ",
)  # fmt: skip
_LANGUAGES = {"en": _ENGLISH, "ru": _RUSSIAN}


def words_of(schedule: str, language: str = "en") -> str:
    """A valid schedule in words; returns an unusual one unchanged."""
    text = ALIASES.get(schedule.strip().lower(), schedule.strip()).lower()
    fields = text.split()
    if len(fields) != 5 or not re.fullmatch(r"[0-9a-z*/,\- ]+", text):
        return schedule
    minute, hour, day, month, weekday = fields
    words = _LANGUAGES[language]
    parts = [_time_of(minute, hour, words), _days_of(day, weekday, words, timed=_is_number_list(minute) and _is_number_list(hour))]
    if month != "*":
        parts.append(words.in_month.format(months=_named(month, words, words.months, _MONTH_NAMES, first=1)))
    return ", ".join(part for part in parts if part)


def _time_of(minute: str, hour: str, words: _Words) -> str:
    if _is_number_list(minute) and _is_number_list(hour):
        times = [f"{int(h):02}:{int(m):02}" for h in hour.split(",") for m in minute.split(",")]
        if len(times) <= 6:
            return words.at.format(times=_joined(times, words.and_))
    if hour == "*":
        if minute == "*":
            return words.every_minute
        if step := _step_of(minute):
            return words.every_minutes.format(n=step) if step > 1 else words.every_minute
        if minute == "0":
            return words.every_hour
        return words.minute_of_hour.format(when=words.every_hour, minutes=minute.replace(",", ", "))
    if (step := _step_of(hour)) and _is_number_list(minute):
        when = words.every_hours.format(n=step) if step > 1 else words.every_hour
        return when if minute == "0" else words.minute_of_hour.format(when=when, minutes=minute.replace(",", ", "))
    shown = words.every_minute if minute == "*" else words.every_minutes.format(n=_step_of(minute)) if _step_of(minute) else ""
    if shown:
        return f"{shown}, {_hours_of(hour)}"
    return words.minutes_of_hours.format(minutes=minute.replace(",", ", "), hours=hour.replace(",", ", "))


def _hours_of(hour: str) -> str:
    """`9-17` with minutes of every kind: 09:00–17:59."""
    spans = []
    for part in hour.split(","):
        if not re.fullmatch(r"\d+(-\d+)?", part):
            return hour
        first, _, last = part.partition("-")
        spans.append(f"{int(first):02}:00–{int(last or first):02}:59")
    return ", ".join(spans)


def _days_of(day: str, weekday: str, words: _Words, *, timed: bool) -> str:
    """Words for day of month and weekday. Cron fires on either if both are restricted."""
    parts = []
    if day != "*":
        step = _step_of(day)
        parts.append(words.step_days.format(n=step) if step else words.days.format(days=day.replace(",", ", ")))
    if weekday != "*":
        named = _named(weekday, words, words.weekdays, _NAMES, first=0)
        # There is no "on" before "Monday to Friday".
        parts.append(named if "-" in weekday and "," not in weekday else words.on_weekday.format(days=named))
    if not parts:
        return words.every_day if timed else ""
    return words.or_.join(parts)


def _named(text: str, words: _Words, names: tuple[str, ...], numbers: dict[str, str], *, first: int) -> str:
    """`1-5` → Monday to Friday, `mon,thu` → Monday and Thursday; anything else as it is."""

    def name(part: str, of: tuple[str, ...]) -> str:
        number = numbers.get(part[:3], part)
        return of[(int(number) - first) % len(of)] if number.isdigit() else part

    in_ranges = words.range_names if len(names) == 7 else names
    shown = []
    for part in text.split(","):
        start, dash, end = part.partition("-")
        if dash and "/" not in end:
            shown.append(words.weekdays_from_to.format(first=name(start, in_ranges), last=name(end, in_ranges)))
        else:
            shown.append(name(part, names))
    return _joined(shown, words.and_)


def _joined(parts: list[str], last: str) -> str:
    return last.join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _step_of(text: str) -> int:
    """`*/n` → n, else 0."""
    return int(text[2:]) if re.fullmatch(r"\*/[1-9]\d*", text) else 0


def _is_number_list(text: str) -> bool:
    return re.fullmatch(r"\d+(,\d+)*", text) is not None
