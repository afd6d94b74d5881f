"""`sless serve --port PORT` with other durations, given in TEST_DURATIONS as JSON."""

import functools
import json
import os

from sless import app, config, log, server
from sless.cli.installation import hold_data_folder
from sless.domain.durations import Durations


def main(port: str) -> int:
    settings = config.load(os.environ, port=int(port))
    durations = Durations(**json.loads(os.environ["TEST_DURATIONS"]))
    log.configure(settings.log_level)
    with hold_data_folder(settings.data_dir):
        app.migrate(settings)
        app.claim(settings, durations)
        server.serve(settings, functools.partial(app.build, durations=durations))
    return 0
