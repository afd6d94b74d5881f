"""Functions of every shape."""

import functools


def nothing():
    return "none"


def second_has_default(event, context=None):
    return context.request_id


def second_is_something_else(event, verbose=False):
    return {"verbose": verbose}


def anything(*arguments):
    return len(arguments)


def traced(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)

    return call


@traced
def decorated(event):
    return event


class Service:
    def handle(self, event, context):
        return {"method": context.request_id}

    def __call__(self, event):
        return {"object": event}


method = Service().handle
instance = Service()
partial = functools.partial(lambda prefix, event: prefix + event["a"], "p-")
