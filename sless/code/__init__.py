"""Checks and normalises uploads and stores them as immutable zips.

`intake` and its child process `intake_child` read uploads (`archive`: the formats, `syntax`: finds its errors); `folder` and `s3` are the
code stores; `contexts` and `s3` keep build contexts for builders in a cluster; `earlier` converts code of the earlier operator.

Decision: a child process reads every upload. Unzipping and compiling hold the GIL for longer than the proxy may wait, and compiling hostile
source can crash the process or exhaust its memory. The child has limits on memory and CPU time; it starts in 50 ms. We store our own zip,
not the caller's: sorted, without dates and junk, so that equal content gives equal bytes.

Decision: each upload has its own blob, even if the same content was uploaded before. If blobs were shared, the clean-up of an old version
could delete a blob that a new upload of the same content has just started to use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sless.config import Settings
    from sless.domain.ports import CodeStore


def open_code_store(settings: "Settings") -> "CodeStore":
    """S3 when an endpoint is configured, else a folder in the data folder. Imports lazily: the child needs neither, and importing boto3
    takes half a second."""
    if settings.s3_endpoint:
        from sless.code.s3 import S3CodeStore

        return S3CodeStore.of(settings)
    from sless.code.folder import FolderCodeStore

    return FolderCodeStore(settings.data_dir / "code")
