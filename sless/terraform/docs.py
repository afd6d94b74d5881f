"""Generates the provider's documentation, in the format of the Terraform registry, from the table of attributes.

python -m sless.terraform.docs FOLDER
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from tf.types import Bool, List, Map, Number

from sless.terraform import docs_examples
from sless.terraform.connection import FIELDS
from sless.terraform.fields import Field, Role
from sless.terraform.provider import DATA_SOURCES, RESOURCES
from sless.terraform.version import VERSION

NESTED = "[see below](#nested--{})"
TIMEOUTS = """
<a id="nested--timeouts"></a>
### Nested block `timeouts`

- `create` (String) Longest time that a create may take, such as `90s` or `10m`; default: `build_timeout_sec` for the build and
  `wait_timeout_sec` for what follows.
- `update` (String) The same for an update.
- `delete` (String) The same for a delete; default: `wait_timeout_sec`.
"""
PROVIDER_TEXT = """Functions, services, triggers and jobs of a sless server.

The provider needs Terraform 1.5 or OpenTofu 1.6, and Python 3.11 on the machine that runs it. `sless terraform install` puts it into a
filesystem mirror and prints what the CLI configuration needs.

Write-only attributes hold secrets that the server never returns. Terraform and OpenTofu 1.11 and later keep them neither in plans nor in
the state, and accept ephemeral values for them; earlier versions keep them in the state. A changed one shows as a difference of
`write_only_hash`."""


def pages() -> dict[str, str]:
    """path below the folder → text"""
    found = {"index.md": _provider_page()}
    for resource in RESOURCES:
        found[f"resources/{resource.kind}.md"] = _resource_page(resource.kind, resource.text, resource.fields)
    for source in DATA_SOURCES:
        found[f"data-sources/{source.kind}.md"] = _data_page(source.kind, source.text, source.fields)
    return found


def _provider_page() -> str:
    head = _head("sless Provider", "Functions, services, triggers and jobs of a sless server.")
    return f"{head}# sless Provider\n\n{PROVIDER_TEXT}\n{_example(docs_examples.PROVIDER)}{_schema(FIELDS, timeouts=False)}"


def _resource_page(kind: str, text: str, fields: tuple[Field, ...]) -> str:
    head = _head(f"sless_{kind} Resource", text)
    example = _example(docs_examples.RESOURCES[kind])
    imported = f"\n## Import\n\n```shell\nterraform import sless_{kind}.example NAME\n```\n"
    return f"{head}# sless_{kind} (Resource)\n\n{text}\n{example}{_schema(fields, timeouts=True)}{TIMEOUTS}{imported}"


def _data_page(kind: str, text: str, fields: tuple[Field, ...]) -> str:
    head = _head(f"sless_{kind} Data Source", text)
    example = _example(docs_examples.DATA_SOURCES[kind])
    return f"{head}# sless_{kind} (Data Source)\n\n{text}\n{example}{_schema(fields, timeouts=False)}"


def _head(title: str, text: str) -> str:
    return f'---\npage_title: "{title} - sless"\nsubcategory: ""\ndescription: |-\n  {text}\n---\n\n'


def _example(text: str) -> str:
    return f"\n## Example Usage\n\n```terraform\n{text.strip()}\n```\n"


def _schema(fields: tuple[Field, ...], *, timeouts: bool) -> str:
    block = ["- `timeouts` (Block) Longest times that operations may take, " + NESTED.format("timeouts") + "."] if timeouts else []
    sections = (
        ("Required", _lines(fields, (Role.REQUIRED,))),
        ("Optional", [*_lines(fields, (Role.OPTIONAL, Role.DEFAULTED, Role.ASSIGNED)), *block]),
        ("Read-Only", _lines(fields, (Role.STATUS,))),
    )
    text = "".join(f"\n### {title}\n\n" + "\n".join(lines) + "\n" for title, lines in sections if lines)
    nested = "".join(
        f'\n<a id="nested--{field.name}"></a>\n### Nested attribute `{field.name}`\n\n' + "\n".join(map(_line, field.nested)) + "\n"
        for field in fields
        if field.nested and field.is_input
    )
    return f"\n## Schema\n{text}{nested}"


def _lines(fields: Iterable[Field], roles: tuple[Role, ...]) -> list[str]:
    return [_line(field) for field in sorted(fields, key=lambda field: field.name) if field.role in roles]


def _line(field: Field) -> str:
    marks = {"Sensitive": field.sensitive, "Write-only": field.write_only, "Deprecated": field.deprecated}
    notes = [_type_of(field), *(text for text, holds in marks.items() if holds)]
    default = ""
    if field.role is Role.DEFAULTED and not callable(field.default) and field.default not in (None, ""):
        default = f" Default: `{str(field.default).lower() if isinstance(field.default, bool) else field.default}`."
    replaces = " A change replaces the resource." if field.replaces else ""
    nested = f" Attributes: {NESTED.format(field.name)}." if field.nested and field.is_input else ""
    return f"- `{field.name}` ({', '.join(notes)}) {field.text}{default}{replaces}{nested}"


def _type_of(field: Field) -> str:
    if field.nested:
        return "Attributes"
    match field.type:
        case Number():
            return "Number"
        case Bool():
            return "Boolean"
        case List():
            return "List of String"
        case Map(element_type=Number()):
            return "Map of Number"
        case Map():
            return "Map of String"
    return "String"


def main() -> None:
    folder = Path(sys.argv[1])
    for path, text in pages().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    print(f"{folder}: the documentation of provider {VERSION}")


if __name__ == "__main__":
    main()
