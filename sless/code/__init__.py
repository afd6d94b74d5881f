"""Code: uploads are checked and normalised (`intake`, in a child process), then kept as immutable zips (`folder` or `s3`).

Decision: an upload is always read by a child. Unzipping and compiling hold the interpreter's lock for longer than the proxy may wait, and
compiling hostile source can crash or exhaust the process that does it; the child has limits on memory and time and takes 50 ms to start.
The zip that is kept is ours, not the caller's: sorted, dateless, without junk, so equal content gives equal bytes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sless.config import Settings
    from sless.domain.ports import CodeStore


def open_code_store(settings: "Settings") -> "CodeStore":
    """S3 when an endpoint is configured, else a folder in the data folder. Imported when used: the child needs neither, and boto3
    takes half a second."""
    if settings.s3_endpoint:
        from sless.code.s3 import S3CodeStore

        return S3CodeStore.of(settings)
    from sless.code.folder import FolderCodeStore

    return FolderCodeStore(settings.data_dir / "code")
