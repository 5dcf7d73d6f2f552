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


scenario(one(4, 3), one(2, 3), one(7, 3), lambda: (randn(3, 5).t(),), dynamic_shapes=({
    0: Dim("n", min=2, max=50)
},))(AssignedTheLastColumnsOfMany)

# Parts of arguments: the buffer shares memory with the caller's tensor from then on.


class AssignedTheLastRowsOfAnArgument(TwoBuffers):

    def forward(self, x):
        y = torch.cat([self.h, x])
        self.h = x[-2:]
        return y.sum(0)


class TwoAssignedPartsOfAnArgument(TwoBuffers):

    def forward(self, x):
        y = self.h + self.k
        self.h = x[:2]
        self.k = x[2:]
        return y


class TwoAssignedOverlappingPartsOfAnArgument(TwoBuffers):

    def forward(self, x):
        y = self.h + self.k
        self.h.mul_(2)
        self.h = x[:2]
        self.k = x[1:3]
        return y


class AssignedAPartOfAnArgumentWhileTheOldIsWritten(TwoBuffers):

    def forward(self, x):
        self.h.add_(1)
        y = self.h.sum(0)
        self.h = x[1:3]
        return y


for module in (AssignedTheLastRowsOfAnArgument, TwoAssignedPartsOfAnArgument, TwoAssignedOverlappingPartsOfAnArgument,
               AssignedAPartOfAnArgumentWhileTheOldIsWritten):
    scenario(*[one(4, 3)] * 3)(module)


@scenario(*[one(3, 2)] * 3)
class AssignedAnArgumentTransposed(TwoBuffers):

    def forward(self, x):
        y = self.h + 1
        self.h = x.t()
        return y


@scenario(one(4, 3), *[lambda earlier: (earlier[-1][0][0],)] * 2, earlier=True)
class AssignedAPartOfAnArgumentThatTheNextCallWrites(TwoBuffers):

    def forward(self, x):
        x.mul_(2)
        y = torch.cat([self.h, x])
        self.h = x[-2:]
        return y.sum(0)


@scenario(*[one(2, 5)] * 3)
class AssignedColumnsOfAnArgumentAndReshaped(TwoBuffers):

    def forward(self, x):
        y = self.h.reshape(-1)
        self.h = x[:, -3:]
        return y


@scenario(*[one(2, 5)] * 3)
class AssignedColumnsOfAnArgumentAndRowsReturned(TwoBuffers):

    def forward(self, x):
        y = self.h[0]
        self.h = x[:, -3:]
        return y, self.h


@scenario(one(2, 5), one(2, 4), one(2, 9), dynamic_shapes=({1: Dim("n", min=4, max=50)},))
class AssignedTheLastColumnsOfAnArgument(TwoBuffers):

    def forward(self, x):
        y = torch.cat([self.h, x], 1)
        self.h = x[:, -3:]
        return y.sum(1)


@scenario(one(1, 3, 10), one(1, 3, 7), one(1, 3, 16), dynamic_shapes=({2: Dim("n", min=3, max=50)},), rtol=1e-4)
class ConvolutionThatKeepsTheEndOfItsInput(nn.Module):

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 4, 3)
        self.register_buffer("cache", torch.zeros(1, 3, 2))

    def forward(self, x):
        y = torch.cat([self.cache, x], 2)
        self.cache = x[:, :, -2:]
        return self.conv(y).relu()


class WithBuffers(nn.Module):

    def __init__(self):
        super().__init__()
        for name, value in self.buffers_at_first().items():
            self.register_buffer(name, value)


@scenario(*[one(5, 3)] * 3)
class OverlapAddOfFrames(WithBuffers):

    def buffers_at_first(self):
        return {"tail": torch.zeros(2, 3)}

    def forward(self, x):
        y = x.clone()
        y[:2] += self.tail
        self.tail = y[3:]
        return y[:3]


@scenario(*[one(4, 3)] * 3)
class PreviousInputAndDelta(WithBuffers):

    def buffers_at_first(self):
        return {"prev": torch.zeros(3)}

    def forward(self, x):
        d = x - torch.cat([self.prev[None], x[:-1]])
        self.prev = x[-1]
        return d


@scenario(one(4, 3), lambda e: (e[0][0][0],), lambda e: (e[0][0][0][:, :].clone(),), earlier=True)
class PreviousInputSeenThroughTheCallersTensor(WithBuffers):

    def buffers_at_first(self):
        return {"prev": torch.zeros(3)}

    def forward(self, x):
        d = x - self.prev
        self.prev = x[-1]
        x.add_(100)
        return d


@scenario(*[one(4, 3)] * 3)
class AssignedAPartOfAnArgumentExpanded(WithBuffers):

    def buffers_at_first(self):
        return {"h": torch.zeros(4, 3)}

    def forward(self, x):
        y = self.h + x
        self.h = x[:1].expand(4, 3)
        return y


@scenario(*[one(6)] * 3)
class AssignedEveryOtherOfAnArgumentAndWrittenNext(WithBuffers):

    def buffers_at_first(self):
        return {"h": torch.zeros(3)}

    def forward(self, x):
        self.h.add_(1)
        y = self.h * 2
        self.h = x[::2]
        return y


@scenario(*[one(4, 2)] * 3)
class AssignedAComplexViewOfAnArgument(WithBuffers):

    def buffers_at_first(self):
        return {"h": torch.zeros(2, dtype=torch.complex64)}

    def forward(self, x):
        y = self.h.real + self.h.imag
        self.h = torch.view_as_complex(x)[1:3]
        return y


@scenario(*[one(2, 6)] * 3)
class AssignedADiagonalOfAnArgument(WithBuffers):

    def buffers_at_first(self):
        return {"h": torch.zeros(2)}

    def forward(self, x):
        y = self.h.sum() + x
        self.h = x.diagonal(1)
        return y


@scenario(*[one(2, 6)] * 3)
class AssignedAnotherBuffersRow(WithBuffers):

    def buffers_at_first(self):
        return {"h": torch.zeros(6), "m": torch.zeros(2, 6)}

    def forward(self, x):
        self.m.add_(x)
        self.h = self.m[1]
        return self.h * 2


@scenario(*[one(2, 3)] * 4)
class AssignedPartsOfArgumentsInTurn(WithBuffers):

    def buffers_at_first(self):
        return {"h": torch.zeros(3), "k": torch.zeros(3)}

    def forward(self, x):
        y = self.h - self.k
        self.k = self.h * 1
        self.h = x[1]
        return y
