"""Architecture rules as pure functions: each takes the sources of a tree and returns its violations as sentences.

`test_architecture.py` applies them to the repository, and to bad samples to show that each rule reports violations.

Decision: import-linter was tried for the import table and finds the same violations. It is not used: the table lists what each part may
import, while import-linter needs 21 contracts that list what is forbidden, 480 lines that every new part changes. The rules for libraries,
cycles and the environment would remain in any case.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 49
MIN_CHARTER_CHARS = 40

LEAVES = frozenset(
    {"_version", "actor", "assets", "children", "clock", "config", "ending", "enums", "errors", "ids", "log", "metrics", "tokens"}
)

# What a part may import besides the leaves, `domain` and itself. `app` is the composition root: the only module that knows every part.
ALLOWED_PARTS: Mapping[str, frozenset[str]] = {
    "domain": frozenset(),
    "kube": frozenset(),
    # Connections that sless opens on a tenant's behalf.
    "outbound": frozenset(),
    # AMQP only; `reconcile` decides what happens with a message.
    "broker": frozenset({"outbound"}),
    # Running user code on this machine, shared by the local backend and the local builder.
    "host": frozenset(),
    "store": frozenset(),
    "code": frozenset(),
    # Copies from one store and code store to another.
    "backup": frozenset({"store", "code"}),
    "backend": frozenset({"kube", "host"}),
    "builder": frozenset({"kube", "host"}),
    "usecases": frozenset({"store", "code"}),
    # Checks of uploaded code.
    "validators": frozenset({"code"}),
    "proxy": frozenset(),
    "reconcile": frozenset({"store", "code", "backend", "builder", "proxy", "outbound", "broker"}),
    "http": frozenset({"usecases"}),
    "asgi": frozenset({"http", "proxy"}),
    "app": frozenset(
        {
            "kube",
            "host",
            "outbound",
            "broker",
            "store",
            "code",
            "backup",
            "backend",
            "builder",
            "usecases",
            "validators",
            "proxy",
            "reconcile",
            "http",
            "asgi",
        }
    ),
    # The front door uses the proxy's parser and error texts, and passes it small calls without ASGI.
    "server": frozenset({"app", "asgi", "proxy"}),
    "client": frozenset(),
    # A composition root like `app`, for one folder.
    "dev": frozenset({"host", "backend", "builder", "proxy", "asgi", "server", "client"}),
    "cli": frozenset({"client", "server", "app", "dev", "host", "terraform"}),
    "terraform": frozenset({"client"}),
}

# Library (import name) → the modules that may import it, so that a library can be replaced in one place.
LIBRARY_HOMES: Mapping[str, tuple[str, ...]] = {
    "a2wsgi": ("sless.asgi",),
    "aiormq": ("sless.broker",),
    "alembic": ("sless.store",),
    "bandit": ("sless.validators.rules_child",),
    "apscheduler": ("sless.reconcile",),
    "boto3": ("sless.code.s3",),
    "botocore": ("sless.code.s3",),
    "click": ("sless.cli",),
    "cryptography": ("sless.tokens", "sless.store.keyring", "sless.terraform.server"),
    "cronsim": ("sless.domain",),
    "flask": ("sless.http",),
    "grpc": ("sless.terraform",),
    "gunicorn": ("sless.server",),
    "httptools": ("sless.proxy", "sless.server"),
    "jinja2": ("sless.http",),
    "jsonschema": ("sless.domain",),
    "jwt": ("sless.tokens",),
    "kubernetes": ("sless.kube",),
    "markdown_it": ("sless.http",),
    "markupsafe": ("sless.http",),
    "pathspec": ("sless.client",),
    "prometheus_client": ("sless.metrics",),
    "pamqp": ("sless.broker",),
    "psycopg": ("sless.store",),
    "requests": ("sless.client", "sless.builder.registry"),
    "sqlalchemy": ("sless.store",),
    "tomli": ("sless.client",),
    "tf": ("sless.terraform",),
    "urllib3": ("sless.client", "sless.kube", "sless.reconcile.delivery", "sless.validators.endpoint"),
    "uvicorn": ("sless.server",),
    "uvicorn_worker": ("sless.server",),
    "uvloop": ("sless.server",),
    "werkzeug": ("sless.http",),
    "yarl": ("sless.broker",),
}

ENVIRONMENT_HOMES = ("sless.config", "sless.cli", "sless.terraform.main")
ENVIRONMENT_NAMES = frozenset({"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"})


@dataclass(frozen=True)
class Source:
    """One file; `path` is relative to the repository."""

    path: Path
    text: str

    @property
    def module(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))


@dataclass(frozen=True)
class Import:
    module: str
    line: int


def read_sources(root: Path, folders: Iterable[str], suffixes: Iterable[str]) -> list[Source]:
    found = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            if path.suffix in suffixes and path.is_file() and not {"node_modules", "__pycache__", "vendor"} & set(relative.parts):
                found.append(Source(relative, path.read_text(encoding="utf-8")))
    return found


def part_of(module: str) -> str:
    """`sless.store.tables` → `store`; the package itself → empty."""
    return module.split(".")[1] if "." in module else ""


def is_in(module: str, homes: Iterable[str]) -> bool:
    return any(module == home or module.startswith(home + ".") for home in homes)


def imports_of(source: Source, modules: frozenset[str] = frozenset()) -> Iterator[Import]:
    """Every import, including those in functions. `from a import b` is `a.b` when that is one of `modules`, else `a`."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(source, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(full if full in modules else base, node.lineno)


def _base_of(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = source.module.split(".")
    keep = len(parts) - node.level + (1 if source.is_package else 0)
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def table_violations(sources: list[Source]) -> list[str]:
    modules = frozenset(source.module for source in sources)
    return [
        f"{source.path}:{item.line}: {source.module} must not import {item.module}"
        for source in sources
        for item in imports_of(source, modules)
        if is_in(item.module, ["sless"]) and not _may_import(part_of(source.module), part_of(item.module))
    ]


def _may_import(importer: str, imported: str) -> bool:
    if importer == "":  # sless/__init__.py runs before everything else, so it imports only the version
        return imported == "_version"
    if imported == "" or imported in LEAVES or imported == importer:
        return True
    if importer in LEAVES:
        return False
    return imported == "domain" or imported in ALLOWED_PARTS.get(importer, frozenset())


def unknown_parts(sources: list[Source]) -> list[str]:
    known = LEAVES | ALLOWED_PARTS.keys() | {"", "__main__"}
    return [
        f"{source.path}: the import table has no row for {part_of(source.module)}"
        for source in sources
        if part_of(source.module) not in known
    ]


def cycles(sources: list[Source]) -> list[str]:
    """Import cycles between modules, each once, starting at its alphabetically first module."""
    modules = frozenset(source.module for source in sources)
    graph = {source.module: sorted({item.module for item in imports_of(source, modules)} & modules - {source.module}) for source in sources}
    found: set[tuple[str, ...]] = set()
    done: set[str] = set()
    for module in sorted(graph):
        _walk(graph, module, [], done, found)
    return ["import cycle: " + " → ".join([*cycle, cycle[0]]) for cycle in sorted(found)]


def _walk(graph: dict[str, list[str]], module: str, trail: list[str], done: set[str], found: set[tuple[str, ...]]) -> None:
    if module in trail:
        cycle = trail[trail.index(module) :]
        first = cycle.index(min(cycle))
        found.add(tuple(cycle[first:] + cycle[:first]))
    elif module not in done:
        for other in graph[module]:
            _walk(graph, other, [*trail, module], done, found)
        done.add(module)


def library_violations(sources: list[Source]) -> list[str]:
    found = []
    for source in sources:
        for item in imports_of(source):
            library = item.module.split(".")[0]
            if library == "sless" or library in sys.stdlib_module_names:
                continue
            homes = LIBRARY_HOMES.get(library)
            if homes is None:
                found.append(f"{source.path}:{item.line}: {library} has no home in LIBRARY_HOMES")
            elif not is_in(source.module, homes):
                found.append(f"{source.path}:{item.line}: {library} is imported in {' and '.join(homes)} only")
    return found


def runtime_import_violations(sources: list[Source]) -> list[str]:
    """Runtimes share a process with user code, so they may import only the standard library and their own modules."""
    own: dict[Path, set[str]] = {}
    for source in sources:
        own.setdefault(_runtime_of(source), {"runtimes"}).update(source.path.with_suffix("").parts)  # "runtimes": a relative import
    return [
        f"{source.path}:{item.line}: a runtime imports the standard library only, not {item.module}"
        for source in sources
        for item in imports_of(source)
        if (library := item.module.split(".")[0]) not in sys.stdlib_module_names and library not in own[_runtime_of(source)]
    ]


def _runtime_of(source: Source) -> Path:
    """`runtimes/python3.11/sless_runtime/loop.py` → `runtimes/python3.11`."""
    return Path(*source.path.parts[:2])


def environment_violations(sources: list[Source]) -> list[str]:
    return [
        f"{source.path}:{line}: the environment is read in {' and '.join(ENVIRONMENT_HOMES)} only"
        for source in sources
        if not is_in(source.module, ENVIRONMENT_HOMES)
        for line in _environment_lines(source.tree)
    ]


def _environment_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr in ENVIRONMENT_NAMES:
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            if any(alias.name in ENVIRONMENT_NAMES for alias in node.names):
                yield node.lineno
        elif isinstance(node, ast.Import) and any(alias.name == "os" and alias.asname for alias in node.names):
            yield node.lineno  # `import os as x` would hide the rest from this rule


def charter_violations(sources: list[Source]) -> list[str]:
    return [
        f"{source.path}: a package says in its docstring what it is for and what it decided"
        for source in sources
        if source.is_package and len(ast.get_docstring(source.tree) or "") < MIN_CHARTER_CHARS
    ]


def blind_excepts(source: Source) -> Iterator[tuple[str, int]]:
    """(`file:function`, line) of each handler or `suppress` that takes any exception and does not raise it again."""
    yield from _blind_in(source.tree, f"{source.path}:", ())


def _blind_in(node: ast.AST, prefix: str, scope: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if _is_blind(child):
            yield prefix + ".".join(scope), getattr(child, "lineno", 0)
        inner = (*scope, child.name) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else scope
        yield from _blind_in(child, prefix, inner)


def _is_blind(node: ast.AST) -> bool:
    if isinstance(node, ast.ExceptHandler):
        return _takes_any(node.type) and not isinstance(node.body[-1], ast.Raise)
    return isinstance(node, ast.Call) and _is_suppress(node.func) and any(_takes_any(argument) for argument in node.args)


def _takes_any(type_: ast.expr | None) -> bool:
    if isinstance(type_, ast.Tuple):
        return any(_takes_any(item) for item in type_.elts)
    return type_ is None or (isinstance(type_, ast.Name) and type_.id in {"Exception", "BaseException"})


def _is_suppress(function: ast.expr) -> bool:
    return (isinstance(function, ast.Name) and function.id == "suppress") or (
        isinstance(function, ast.Attribute) and function.attr == "suppress"
    )


def blind_except_violations(sources: list[Source], allowed: Mapping[str, str]) -> list[str]:
    found = [(place, line) for source in sources for place, line in blind_excepts(source)]
    paths = {str(source.path) for source in sources}
    stale = {place for place in allowed if place.split(":")[0] in paths} - {place for place, _ in found}
    blind = [
        f"{place} (line {line}): `except Exception` is for a loop's edge or a thread's top" for place, line in found if place not in allowed
    ]
    return blind + [f"{place}: listed as an allowed `except Exception`, but there is none" for place in sorted(stale)]


def unexplained_blind_excepts(sources: list[Source]) -> list[str]:
    """Runtimes call code that may raise anything in many places, so each such line needs a comment with the reason."""
    return [
        f"{place} (line {line}): say on this line why any exception may end here"
        for source in sources
        for place, line in blind_excepts(source)
        if not re.search(r"\s#\s.{10,}", source.text.splitlines()[line - 1])
    ]


_SUPPRESSION = re.compile(r"# (?:noqa|type: ignore|pragma: no cover)\b(?::? ?[A-Z0-9, ]+\b|\[[a-z, -]+\])?(?P<reason>.*)")


def unexplained_suppressions(sources: list[Source]) -> list[str]:
    """A line that silences ruff or mypy says why on the same line."""
    return [
        f"{source.path}:{number}: say on this line why `{mark[0].strip()}` is right here"
        for source in sources
        for number, line in enumerate(source.text.splitlines(), start=1)
        if (mark := _SUPPRESSION.search(line)) and len(mark["reason"].strip(" -#")) < 8
    ]


def file_length_violations(sources: list[Source]) -> list[str]:
    return [
        f"{source.path}: {lines} lines, the limit is {MAX_FILE_LINES}: split it by responsibility"
        for source in sources
        if (lines := len(source.text.splitlines())) > MAX_FILE_LINES
    ]


def function_length_violations(sources: list[Source]) -> list[str]:
    return [
        f"{source.path}:{line}: {name} has {lines} lines, the limit is {MAX_FUNCTION_LINES}"
        for source in sources
        for name, line, lines in (_python_functions(source) if source.path.suffix == ".py" else _script_functions(source))
        if lines > MAX_FUNCTION_LINES
    ]


def _python_functions(source: Source) -> Iterator[tuple[str, int, int]]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


# A line that opens a function, an arrow function or a method with a body. Not a parser: relies on the usual indentation.
_SCRIPT_FUNCTION = re.compile(r"\bfunction\b.*\{\s*$|=>\s*\{\s*$|\bfunc\b.*\{\s*$")
_SCRIPT_METHOD = re.compile(r"^\s*(?:(?:static|async|get|set)\s+)*\*?\s*(?P<name>#?[\w$]+)\s*\([^;]*\)\s*\{\s*$")
_SCRIPT_BLOCKS = frozenset({"if", "for", "while", "switch", "catch", "with"})


def _script_functions(source: Source) -> Iterator[tuple[str, int, int]]:
    lines = source.text.splitlines()
    for start, line in enumerate(lines):
        if not _opens_function(line):
            continue
        closing = line[: len(line) - len(line.lstrip())] + "}"
        end = next((number for number in range(start + 1, len(lines)) if lines[number].startswith(closing)), len(lines) - 1)
        yield line.strip()[:60], start + 1, end - start + 1


def _opens_function(line: str) -> bool:
    method = _SCRIPT_METHOD.match(line)
    return bool(_SCRIPT_FUNCTION.search(line) or (method and method["name"] not in _SCRIPT_BLOCKS))
