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
