"""Adapts modules of the standard library when user code imports them, so that the runtime need not import them itself."""

import sys
import threading


class AfterImport:
    """A finder on `sys.meta_path` that calls `actions[name](module)` once the module has been executed."""

    def __init__(self, actions):
        self._actions = actions

    def find_spec(self, name, path=None, target=None):
        action = self._actions.pop(name, None)
        if action is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                return spec if spec.loader is None else followed(spec, action)
        return None


def followed(spec, action):
    execute = spec.loader.exec_module

    def execute_and_act(module):
        execute(module)
        action(module)

    spec.loader.exec_module = execute_and_act
    return spec


def install():
    """Call it before user code is imported."""
    sys.meta_path.insert(0, AfterImport({"logging": tune_logging, "asyncio.events": give_threads_loops}))


def tune_logging(logging):
    """Log INFO and above, one line per record, without any set-up by the user: plain Python would drop INFO silently.

    Adds no handler to the root logger, so that `logging.basicConfig()` of the user still works.
    """
    last_resort = getattr(logging, "lastResort", None)
    if last_resort is None:  # a module of the user's with this name
        return
    last_resort.setLevel(logging.NOTSET)
    last_resort.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logging.root.setLevel(logging.INFO)


def give_threads_loops(events):
    """Make `asyncio.get_event_loop()` work in every thread: handlers run in threads, and Lambda's run in the main thread."""
    policy = getattr(events, "BaseDefaultEventLoopPolicy", None)
    if policy is None:
        return
    original = policy.get_event_loop

    def get_event_loop(self):
        if self._local._loop is None and threading.current_thread() is not threading.main_thread():
            self.set_event_loop(self.new_event_loop())
        return original(self)

    policy.get_event_loop = get_event_loop
