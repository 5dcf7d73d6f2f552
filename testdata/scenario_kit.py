"""How scenarios are declared, and the arguments that they share. make_scenarios.py says how it is used."""

import torch

SCENARIOS = {}


def scenario(*calls, example=None, script=False, **options):

    def register(f):
        assert f.__name__ not in SCENARIOS, f.__name__
        SCENARIOS[f.__name__] = f, calls, example, script, options
        return f

    return register


def randn(*sizes, dtype=torch.float32):
    return torch.randn(sizes).to(dtype)


def over(offset, sizes, strides, base):
    return torch.as_strided(base, sizes, strides, offset)


def two(*sizes):
    """Two tensors that share nothing."""
    return lambda: (randn(*sizes), randn(*sizes))


def one(*sizes):
    return lambda: (randn(*sizes),)


def twice(*sizes):
    """One tensor passed twice."""

    def make():
        x = randn(*sizes)
        return x, x

    return make


def slices(n, *places):
    """1-D slices (start, length) of one tensor of n elements."""

    def make():
        base = randn(n)
        return tuple(base[a:a + k] for a, k in places)

    return make


def boxes(n, *places):
    """Strided views (offset, sizes, strides) of one tensor of n elements."""

    def make():
        base = randn(n)
        return tuple(over(o, s, t, base) for o, s, t in places)

    return make
