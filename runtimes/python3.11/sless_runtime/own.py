"""Keeps the runtime working when user code has modules with names of the standard library.

The user's folder comes first on `sys.path`, so a `logging.py` or `queue.py` of theirs would reach the modules that the runtime imports
late. Only when the folder has such a name, the runtime imports those modules early, keeps them to itself, and leaves the names free.
"""

import os
import sys

LATE = ("re", "traceback", "inspect", "json.decoder", "atexit", "site", "asyncio")
_kept = {}


def standard(name):
    """A module of the standard library; for imports that happen after user code is on the path."""
    module = _kept.get(name)
    if module is None:
        __import__(name)
        module = sys.modules[name]
    return module


def keep_standard_modules(code_dir):
    """Import the modules of LATE now if a name in the folder hides one of the standard library."""
    hidden = {name.partition(".")[0] for name in os.listdir(code_dir)} & sys.stdlib_module_names
    if not hidden:
        return
    known = set(sys.modules)
    for name in LATE:
        _kept[name] = standard(name)
    _kept["asyncio"].get_event_loop_policy()  # imports from the package by name, which is no longer possible later
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in hidden and name != "json.decoder":  # the C scanner looks this one up in sys.modules
            del sys.modules[name]
