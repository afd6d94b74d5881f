"""Loads `module.function` as something that can be called with an event and a context."""

import os
import sys

from .failures import own_folders
from .own import keep_standard_modules, standard

WITH_VARARGS = 0x04


class CannotLoad(Exception):
    """The entrypoint cannot be called; the message says why. `__cause__` is the exception of the user's code, if any."""


class Handler:
    """The user's function. `arguments`: how many of (event, context) it takes."""

    __slots__ = ("arguments", "function")

    def __init__(self, function, arguments):
        self.function = function
        self.arguments = arguments


def prepare_path(code_dir, deps_dir):
    """Put the user's folder first and their packages last, as `python file.py` does. Child processes find the packages too."""
    code_dir = os.path.abspath(code_dir)
    keep_standard_modules(code_dir)
    os.chdir(code_dir)
    sys.path.insert(0, code_dir)
    own_folders.append(code_dir + os.sep)
    if deps_dir is None:
        return
    deps_dir = os.path.abspath(deps_dir)
    own_folders.append(deps_dir + os.sep)
    os.environ.setdefault("PYTHONPATH", deps_dir)
    if os.path.isdir(deps_dir) and any(name.endswith(".pth") for name in os.listdir(deps_dir)):
        standard("site").addsitedir(deps_dir)
    else:
        sys.path.append(deps_dir)


def load_handler(entrypoint):
    """Import the handler. Raises CannotLoad when it is missing, is not callable or exits."""
    path, _, name = entrypoint.strip().rpartition(".")
    module_name = path.removeprefix("./").replace("/", ".")
    if not name or not module_name or ".." in module_name or module_name.startswith("."):
        raise CannotLoad(f"entrypoint {entrypoint!r}: expected module.function, such as handler.handle")
    known = sys.modules.get(module_name)
    try:
        __import__(module_name)
    except SystemExit as left:
        from .failures import exit_code_of

        raise CannotLoad(f"module {module_name} exited with code {exit_code_of(left)} while it was imported") from left
    except BaseException as error:  # a user's module may raise anything
        raise CannotLoad(f"module {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    module = sys.modules[module_name]
    if not hasattr(module, name):
        raise CannotLoad(missing_function(module_name, name, module, known))
    function = getattr(module, name)
    if not callable(function):
        raise CannotLoad(f"{module_name}.{name}: expected a function, found {type(function).__name__}")
    return Handler(function, argument_count(function, f"{module_name}.{name}"))


def missing_function(module_name, name, module, known):
    if module is known:
        return f"module {module_name}: expected the function {name}, found Python's own module of that name; rename the file"
    found = sorted(key for key, value in vars(module).items() if callable(value) and getattr(value, "__module__", None) == module_name)
    return f"module {module_name}: expected the function {name}, found {', '.join(found) or 'none'}"


def argument_count(function, name):
    """How many of (event, context) a function takes by position. Raises CannotLoad when it requires more.

    A second parameter with a default receives the context only when its name is `context`-like: `handle(event, db=None)` does not want it.
    """
    plain = type(function) is type(argument_count) and not hasattr(function, "__wrapped__")
    code = function.__code__ if plain else None
    if code is None or code.co_kwonlyargcount:
        least, names = positional_by_signature(function, name)
    else:
        names = code.co_varnames[: code.co_argcount]
        least = len(names) - len(function.__defaults__ or ())
        if code.co_flags & WITH_VARARGS:
            names += ("context",) * 2
    refuse_application(names, name)
    if least > 2:
        raise CannotLoad(f"{name}: expected a function of (event) or (event, context), found one that needs {least} arguments")
    if least < 2 <= len(names) and not any(word in names[1].lower() for word in ("context", "ctx")):
        return 1
    return min(len(names), 2)


def refuse_application(names, name):
    """WSGI and ASGI applications can be called, too, but with other arguments. Raises CannotLoad."""
    if names[1:2] == ("start_response",):
        kind, wrapped = "a WSGI", "apig_wsgi.make_lambda_handler(app)"
    elif names[1:3] == ("receive", "send"):
        kind, wrapped = "an ASGI", "mangum.Mangum(app)"
    else:
        return
    raise CannotLoad(
        f"{name}: expected a function of (event) or (event, context), found {kind} application; set handle = {wrapped}, the entrypoint to"
        ' handle and event_format to "aws-http-v2"'
    )


def positional_by_signature(function, name):
    """(minimum number, names) of a callable's positional arguments; (event, context) when it has no signature."""
    inspect = standard("inspect")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2, ("event", "context")
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in parameters if one.kind == one.KEYWORD_ONLY and one.default is one.empty]
    if needed:
        raise CannotLoad(f"{name}: expected a function of (event) or (event, context), found the required keyword {needed[0].name}")
    names = tuple(one.name for one in positional)
    if any(one.kind == one.VAR_POSITIONAL for one in parameters):
        names += ("context",) * 2
    return sum(one.default is one.empty for one in positional), names
