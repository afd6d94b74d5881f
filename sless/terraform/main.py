"""The provider's executable, which Terraform starts. If it is started by hand, it explains its use.

`--debug [ADDRESS…]` serves several runs from one process; it prints the value for TF_REATTACH_PROVIDERS.
"""

import os
import sys
import threading

from sless.terraform.provider import SlessProvider
from sless.terraform.server import serve, serve_attached
from sless.terraform.servicer import Servicer
from sless.terraform.version import ADDRESS, VERSION

COOKIE = ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
DEBUG = "--debug"


def main() -> int:
    stop = threading.Event()
    servicer = Servicer(SlessProvider(dict(os.environ), stop), stop)
    if sys.argv[1:2] == [DEBUG]:
        servicer.is_reused = True
        serve_attached(servicer, sys.argv[2:] or [ADDRESS])
        return 0
    name, value = COOKIE
    if os.environ.get(name) != value:
        print(
            f"Terraform provider sless {VERSION}: a plugin that Terraform starts; `sless terraform install` installs it.", file=sys.stderr
        )
        return 1
    serve(servicer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
