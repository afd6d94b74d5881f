"""The code checks, for uploads and for stored code."""

import shutil

from sless.code.intake import CheckedUpload, Form
from sless.domain.code_check import CodeToCheck
from sless.domain.model import Version, Workload
from sless.domain.runtimes import RUNTIMES
from sless.usecases.parts import UseCaseParts


def check_package(parts: UseCaseParts, workload: Workload, package: CheckedUpload, runtime: str) -> tuple[str, ...]:
    """Returns the warnings of the code checks, which may take seconds. Raises INVALID_CODE."""
    code = CodeToCheck(
        path=package.path, sha256=package.sha256, language=RUNTIMES[runtime].language, namespace=workload.namespace, name=workload.name,
        mistakes=package.mistakes, unparsed=package.unparsed,
    )  # fmt: skip
    return parts.validator.validate(code)


def check_version(parts: UseCaseParts, workload: Workload, base: Version, *, runtime: str, entrypoint: str) -> tuple[str, ...]:
    """Checks the code of the version `base` for this runtime. Raises the errors of an upload, NotFound."""
    with parts.intake.staged() as folder:
        path = folder / "upload"
        with parts.code.open(base.code_key) as stored, path.open("wb") as file:
            shutil.copyfileobj(stored, file, 1 << 20)
        package = parts.intake.check(path, Form.ZIP, runtime=runtime, entrypoint=entrypoint)
        return check_package(parts, workload, package, runtime)
