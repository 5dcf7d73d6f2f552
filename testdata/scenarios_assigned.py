"""Scenarios for make_scenarios.py: buffers that are assigned (self.h = ...) parts, views and tensors that others see too."""

import torch
from torch import nn
from torch.export import Dim

from scenario_kit import one, randn, scenario


class TwoBuffers(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.arange(6.).view(2, 3))
        self.register_buffer("k", torch.arange(6., 12.).view(2, 3))


class TwoBuffersOfOneStorage(nn.Module):

    def __init__(self):
        super().__init__()
        base = torch.arange(12.).view(4, 3)
        self.register_buffer("h", base[:2])
        self.register_buffer("k", base[1:3])


class AssignedTransposedAndTheOldReturned(TwoBuffers):

    def forward(self, x):
        old = self.h
        self.h = (self.h + x).t().contiguous().t()
        old.add_(100)
        return old, self.h * 1


class AssignedAPartAndTheOldReturned(TwoBuffers):

    def forward(self, x):
        old = self.h
        self.h = torch.cat([self.h, x])[2:]
        old.add_(100)
        return old


class AssignedAPartThatNobodyElseSees(TwoBuffers):

    def forward(self, x):
        self.h = torch.cat([self.h, x])[2:]
        self.h[0].zero_()
        return self.h.sum(0)


class AssignedAPartOfWhatIsReturned(TwoBuffers):

    def forward(self, x):
        y = torch.cat([self.h, x])
        self.h = y[1:3]
        self.h.mul_(2)
        return y, self.h


class TwoAssignedPartsOfOneResult(TwoBuffers):

    def forward(self, x):
        h, k = self.h, self.k
        y = torch.cat([self.h, x])
        self.h = y[:2]
        self.k = y[1:3]
        h.add_(1)
        k.mul_(2)
        return h, k


class TwoAssignedOneTensor(TwoBuffers):

    def forward(self, x):
        y = self.h + self.k * x
        self.h = y
        self.k = y
        return y * 1


class TwoAssignedTheChunksOfOneResult(TwoBuffers):

    def forward(self, x):
        a, b = torch.cat([self.h, self.k + x], 1).chunk(2, 1)
        self.h = a
        self.k = b
        return a + b


class AssignedAnotherViewOfItself(TwoBuffers):

    def forward(self, x):
        old = self.h
        self.h = self.h.view(3, 2).t()
        old.add_(x)
        return old, self.h + x


class AssignedWhereAnotherLiesInItsStorage(TwoBuffersOfOneStorage):

    def forward(self, x):
        old = self.h
        self.h = x.expand(2, 3) + 0
        self.k = self.k[[1, 0]]
        old.add_(1)
        return old, self.k[0]


class AssignedPartsWhereTheyShareAStorage(TwoBuffersOfOneStorage):

    def forward(self, x):
        y = torch.cat([self.h, x])
        self.h = y[:2]
        self.k = y[2:]
        return y * 1


for module in list(globals().values()):
    if isinstance(module, type) and "forward" in vars(module):
        scenario(*[one(2, 3)] * 3)(module)


class AssignedTheLastColumnsOfMany(TwoBuffers):

    def forward(self, x):
        y = torch.cat([self.h, x]).t().contiguous()
        self.h = y[:, -2:].t()
        return y.sum(), self.h * 2


scenario(one(4, 3), one(2, 3), one(7, 3), lambda: (randn(3, 5).t(),), dynamic_shapes=({0: Dim("n", min=2, max=50)},))(
    AssignedTheLastColumnsOfMany)
