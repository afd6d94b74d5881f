"""Exit codes in a user's words."""

import signal


def exit_words_of(code: int) -> str:
    """`function exited with code 3`, `function was ended by SIGSEGV (segmentation fault)`. A negative code is a signal's number."""
    if code >= 0:
        return f"function exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"function was ended by signal {-code}"
    return f"function was ended by {name} ({(signal.strsignal(-code) or '').lower()})"


def reported(words: str, crash: str) -> str:
    """The words of `exit_words_of` with the first line of the report that the process left (`panic: …`), unless a signal says as much."""
    if not crash or (words.startswith("function was ended by") and "SIGABRT" not in words):
        return words
    return f"{words}: {crash}"
