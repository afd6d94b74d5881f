"""ASGI: the front of the application, one event loop.

`application` dispatch and lifespan, what `app` injects (`ApplicationParts`) · `calls` /fn and …/invoke · `streams` logs that are followed ·
`health` liveness and readiness · `mount` Flask behind a2wsgi · `answers` small answers, JSON errors · `paths` which path goes where.

Decision: whatever may take long is native here, whatever is short is Flask's. Consequence: Flask's ten threads are never held by a slow
caller; a request body has been read whole, within its limit, before Flask hears of the request.
"""

from sless.asgi.application import Application, ApplicationParts
from sless.domain.ports import Follower, FollowPage, FollowRequest

__all__ = ["Application", "ApplicationParts", "FollowPage", "FollowRequest", "Follower"]
