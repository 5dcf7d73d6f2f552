"""Exports models that call operators of their author's own and records their answers: python3 make_models.py.

Needs PyTorch. operators.cc beside this file implements the operators for the tests.
"""

import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from record import record  # noqa: E402

library = torch.library.Library("testops", "DEF")


def define(schema, function, fake=None):
    name = schema.split("(")[0]
    library.define(schema)
    library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake("testops::" + name, fake or function, lib=library)


# A view of its argument, as far as the schema says; the result of a view that is written is seen through x.
define("head(Tensor(a) x, SymInt n) -> Tensor(a)", lambda x, n: x[:n])
# Writes its argument and returns it.
define("clamp_(Tensor(a!) x, *, float? low=None, float? high=None) -> Tensor(a!)",
       lambda x, *, low=None, high=None: x.clamp_(low, high))


# Writes its argument.
def cap_(x, high):
    x.clamp_(max=high)


define("cap_(Tensor(a!) x, float high) -> ()", cap_)


# Several results, lists of numbers, an optional tensor, a string.
def moments(x, dims, bias=None, *, mode="mean"):
    if bias is not None:
        x = x + bias
    total = x.sum(dims)
    return (total if mode == "sum" else total / (x.numel() / total.numel())), (x * x).sum(dims)


define('moments(Tensor x, int[] dims, Tensor? bias=None, *, str mode="mean") -> (Tensor, Tensor)', moments)
# Lists of tensors, in and out; those that are written are the caller's.
define("doubled(Tensor[] xs) -> Tensor[]", lambda xs: [x * 2 for x in xs])


def add_all_(xs, y):
    for x in xs:
        x.copy_(x + y)  # which may overlap


define("add_all_(Tensor(a!)[] xs, Tensor y) -> ()", add_all_)


# A result whose size only the data decide.
def positive_fake(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


define("positive(Tensor x) -> Tensor", lambda x: x[x > 0], positive_fake)
# A given result, and a number.
define("fill.out(Tensor like, int value, *, Tensor(a!) out) -> Tensor(a!)",
       lambda like, value, *, out: out.fill_(value))


class Kinds(torch.nn.Module):
    """One call of each kind of operator."""

    def forward(self, x, y, rows):
        ops = torch.ops.testops
        head = ops.head(x, 2)
        head.mul_(3)  # x's first two rows
        ops.clamp_(x, high=4.0)
        mean, squares = ops.moments(x, [1], y, mode="mean")
        total, _ = ops.moments(x, [0, 1], mode="sum")
        a, b = ops.doubled([x, y])
        ops.add_all_([rows[0], rows[2]], y)
        out = torch.empty(3)
        ops.fill(mean, 7, out=out)
        return head, mean + squares, total, a + b, out * 2, rows[2]


class Dynamic(torch.nn.Module):
    """Sizes that vary from call to call, and one that the data decide."""

    def forward(self, x):
        ops = torch.ops.testops
        found = ops.positive(x)
        torch._check(found.shape[0] >= 2)
        rows = ops.head(x, x.shape[0] - 1)
        return found * 2, rows + 1, found.shape[0]


class Shared(torch.nn.Module):
    """Arguments that the caller may pass overlapping: what the operator writes through one is seen through the other."""

    def forward(self, x, y):
        torch.ops.testops.clamp_(x, low=0.5)
        before = y * 1
        torch.ops.testops.add_all_([y], x)
        return before, x


class Written(torch.nn.Module):
    """A buffer and an argument that operators write, in an archive after run_decompositions()."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        ops = torch.ops.testops
        ops.add_all_([self.total, x[0]], x[1])
        ops.cap_(x[:, 1:], 0.5)
        return self.total * 2, x + 1


def main():
    g = torch.Generator().manual_seed(0)
    randn = lambda *sizes: torch.randn(*sizes, generator=g)  # noqa: E731

    def save(name, module, calls, **more):
        different = record(module, calls, str(HERE / name), **more)
        assert different == [], (name, different)

    save("kinds", Kinds(), [(randn(4, 3), randn(3), randn(3, 3)) for _ in range(2)])
    rows = torch.export.Dim("rows", min=3, max=64)
    save("dynamic", Dynamic(), [(randn(n, 3),) for n in (5, 4, 9)], dynamic_shapes=({0: rows},))
    memory = randn(12)
    save("shared", Shared(), [(randn(2, 3), randn(2, 3)), (memory[0:6].view(2, 3), memory[3:9].view(2, 3))])
    save("written", Written(), [(randn(2, 3),) for _ in range(2)], decompose=True)
    names = sorted(n for n in torch._C._dispatch_get_all_op_names() if n.startswith("testops::"))
    schemas = [str(torch._C._get_schema(*n.partition(".")[::2])) for n in names]
    (HERE / "operators.txt").write_text("# Made by make_models.py.\n" + "\n".join(schemas) + "\n")


if __name__ == "__main__":
    main()
