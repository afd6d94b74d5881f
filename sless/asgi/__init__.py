"""ASGI: the front of the application, one event loop.

`application` dispatch and lifespan, and what `app` injects (`ApplicationParts`) · `calls` /fn and …/invoke · `streams` followed logs ·
`overviews` lists of open consoles · `console` requests of the console's scripts · `health` liveness and readiness · `mount` Flask behind
a2wsgi · `contexts` build contexts for builder pods · `sign_ins` delays after failed sign-ins · `answers` small answers, JSON errors ·
`paths` the kinds of paths · `types` types of ASGI.

Decision: requests that may take long are handled here, short ones by Flask. Consequence: a slow caller never occupies one of Flask's ten
threads; the request body is read completely, within its limit, before Flask gets the request.
"""

from sless.asgi.application import Application, ApplicationParts
from sless.domain.ports import Follower, FollowPage, FollowRequest

__all__ = ["Application", "ApplicationParts", "FollowPage", "FollowRequest", "Follower"]
