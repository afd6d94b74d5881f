"""What the Python runtime accepts as an entrypoint."""

import flask
import pytest
from sless_runtime.loading import CannotLoad, argument_count


class Asgi:
    """As FastAPI and Starlette define it."""

    async def __call__(self, scope, receive, send):
        pass


class Adapter:
    """As Mangum defines it."""

    def __call__(self, event, context):
        pass


def plain_wsgi(environ, start_response):
    pass


@pytest.mark.parametrize(
    ("application", "kind", "adapter"),
    [
        (flask.Flask("app"), "a WSGI application", "apig_wsgi.make_lambda_handler(app)"),
        (plain_wsgi, "a WSGI application", "apig_wsgi.make_lambda_handler(app)"),
        (Asgi(), "an ASGI application", "mangum.Mangum(app)"),
    ],
)
def test_a_web_application_is_refused_with_the_way_to_run_it(application, kind, adapter):
    with pytest.raises(CannotLoad) as caught:
        argument_count(application, "handler.app")
    assert str(caught.value).startswith(
        f"handler.app: expected a function of (event) or (event, context), found {kind}; set handle = {adapter}"
    )


def test_an_adapter_is_a_handler():
    assert argument_count(Adapter(), "handler.handle") == 2
