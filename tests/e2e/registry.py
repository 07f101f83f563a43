"""The list of acceptance tests: a function of its cell, and of the backend where it is the same for both."""

BACKENDS = ["subtree", "group"]
TESTS = []


def test(name, users=("root", "user"), backends=(None,)):
    """`name`: what must hold, in words."""
    def add(function):
        for backend in backends:
            full = f"{name} [{backend}]" if backend else name
            TESTS.append((full, users, (lambda cell, backend=backend: function(cell, backend)) if backend else function))
        return function
    return add


def of_user(user):
    return [(f"{user}/{name}", function) for name, users, function in TESTS if user in users]
