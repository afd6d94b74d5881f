other = 1


def some_function(event):
    return event


not_callable = 3


def needs_three(a, b, c):
    return None
