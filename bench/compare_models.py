"""Six small models that keep state or write into what they are given, each with a few calls.

A scenario is a dict: `module` in the mode in which it is exported, `example` arguments of torch.export, `dynamic_shapes` or
None, `calls`, a list of argument lists in a fixed order, and `refused`, whether the last call must be refused. All numbers
are small, so that an answer that is wrong is wrong by far.
"""

import torch
from torch import nn

SCENARIOS = {}


def scenario(f):
    SCENARIOS[f.__name__] = f
    return f


class Decoder(nn.Module):
    """One step of attention with a cache of keys and values in buffers, as a language model decodes."""

    def __init__(self, width=16, heads=2, length=8):
        super().__init__()
        self.heads, self.length = heads, length
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, length, width // heads))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):  # [1, width]
        q, k, v = (t.view(1, self.heads, 1, -1) for t in self.qkv(x).chunk(3, 1))
        self.keys.index_copy_(2, self.position, k)
        self.values.index_copy_(2, self.position, v)
        scores = q @ self.keys.transpose(2, 3) / k.shape[-1] ** 0.5
        hidden = torch.arange(self.length) > self.position
        scores = scores.masked_fill(hidden, -1e9).softmax(-1)
        self.position.add_(1)
        return self.out((scores @ self.values).reshape(1, -1))


@scenario
def kv_cache():
    steps = [torch.randn(1, 16) for _ in range(3)]
    return {"module": Decoder().eval(), "example": [steps[0]], "calls": [[x] for x in steps]}


class TrainedCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=0.5)

    def forward(self, x):
        return self.norm(self.conv(x)).relu().mean((2, 3)), self.norm.running_mean + 0


@scenario
def running_statistics():
    images = [torch.randn(2, 1, 6, 6) + i for i in range(2)]
    return {"module": TrainedCnn().train(), "example": [images[0]], "calls": [[x] for x in images]}


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.count += 1
        self.total.add_(x)
        return self.total / self.count, self.count + 0


@scenario
def counter():
    return {"module": Counter(), "example": [torch.ones(4)], "calls": [[torch.full((4,), float(i))] for i in (1, 2, 6)]}


class Shift(nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        return x + y


@scenario
def overlapping_views():
    memory = torch.arange(12.0)
    return {
        "module": Shift(),
        "example": [torch.zeros(8), torch.zeros(8)],
        "calls": [[memory[:8], memory[4:]]],  # the second half of x is the first half of y
    }


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x).softmax(1)


@scenario
def too_large():
    rows = torch.export.Dim("rows", min=1, max=4096)
    return {
        "module": Scores().eval(),
        "example": [torch.randn(3, 4)],
        "dynamic_shapes": {"x": {0: rows}},
        "calls": [[torch.randn(7, 4)], [torch.randn(5000, 4)]],
        "refused": True,
    }


class Normalize(nn.Module):
    def forward(self, x):
        x.sub_(x.mean())
        return x.abs().max()


@scenario
def written_argument():
    return {"module": Normalize(), "example": [torch.ones(4)], "calls": [[torch.tensor([1.0, 2.0, 3.0, 6.0])]]}


def make(name):
    """The scenario with the same weights and arguments in each process."""
    torch.manual_seed(0)
    made = SCENARIOS[name]()
    return {"dynamic_shapes": None, "refused": False, **made}
