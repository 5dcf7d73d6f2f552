"""Records what PyTorch does to sizes, strides and offsets: writes view_rules.txt beside this file.

A line is tab-separated: rule, operand geometries, arguments, result. A geometry is "SIZES STRIDES OFFSET" with lists as
"2,3" and "-" for an empty list; operands and arguments are separated by " ; ", an absent argument is "None". A result is
"= GEOMETRY", "= copy GEOMETRY" where reshape copies, "= 0" or "= 1" for a predicate, or "! MESSAGE".

    python3 record_view_rules.py            # deterministic for one version of PyTorch
"""

import pathlib
import random

import torch

ITEMS = 1 << 16
BASE = torch.zeros(ITEMS)
BASES = {}
RNG = random.Random(7)
DTYPES = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "Char": torch.int8,
          "Long": torch.int64, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128, "Int": torch.int32}


def random_size():
    return RNG.choices([0, 1, 2, 3, 4, 6], [1, 6, 6, 5, 4, 3])[0]


def contiguous(sizes, order):
    strides, step = [0] * len(sizes), 1
    for d in order:
        strides[d] = step
        step *= max(sizes[d], 1)
    return strides


def random_geometry(rank=None, sizes=None):
    if sizes is None:
        rank = RNG.choices(range(6), [1, 3, 5, 5, 5, 3])[0] if rank is None else rank
        sizes = [random_size() for _ in range(rank)]
    rank = len(sizes)
    order = list(range(rank))[::-1]
    kind = RNG.randrange(8)
    if kind in (1, 2):
        RNG.shuffle(order)
    if kind == 3 and rank >= 4:
        order = [1] + list(range(2, rank))[::-1] + [0]
    strides = contiguous(sizes, order)
    if kind == 4:  # a slice of something larger
        strides = contiguous([s + RNG.choice([0, 0, 1, 2]) for s in sizes], order)
    if kind == 5:  # some dims broadcast
        strides = [0 if RNG.random() < 0.4 else s for s in strides]
    if kind == 6:
        strides = [RNG.choice([0, 1, 1, 2, 3, 4, 6, 8, 12]) for _ in sizes]
    if kind == 7:  # odd strides where they do not matter
        strides = [RNG.choice([1, 5, 7, 99]) if n == 1 else s for n, s in zip(sizes, strides)]
    return tuple(sizes), tuple(strides), RNG.choice([0, 0, 1, 2, 4, 5])


def tensor(g, dtype=torch.float32):
    base = BASE if dtype == torch.float32 else BASES.setdefault(dtype, torch.zeros(ITEMS, dtype=dtype))
    return base.as_strided(*g)


def geometry_of(t):
    return tuple(t.shape), t.stride(), t.storage_offset()


def ints(values):
    return ",".join(map(str, values)) if len(values) else "-"


def text(g):
    return f"{ints(g[0])} {ints(g[1])} {g[2]}"


def arg(a):
    return ints(a) if isinstance(a, (tuple, list)) else str(a)


LINES = []


def record(rule, operands, args, run):
    try:
        out = run()
        if isinstance(out, torch.Tensor):
            out = text(geometry_of(out))
        elif isinstance(out, bool):
            out = str(int(out))
        result = f"= {out}"
    except (RuntimeError, IndexError) as e:
        message = str(e).split("\n")[0]
        if "integer multiplication overflow" in message or "Storage size calculation" in message:
            return  # says nothing of the rule
        result = f"! {message}"
    LINES.append("\t".join([rule, " ; ".join(map(text, operands)), " ; ".join(map(arg, args)), result]))


def dim(rank):
    return RNG.randrange(-rank - 1, rank + 1) if RNG.random() < 0.1 else RNG.randrange(-max(rank, 1), max(rank, 1))


def factors(n, parts):
    """parts factors of n, some 1."""
    out = []
    for _ in range(parts - 1):
        divisors = [d for d in range(1, n + 1) if n % d == 0] if n else [0, 1, 2]
        d = RNG.choice(divisors)
        out.append(d)
        n = n // d if d else n
    out.append(n)
    RNG.shuffle(out)
    return out


def view_sizes(sizes):
    n = 1
    for s in sizes:
        n *= s
    kind = RNG.random()
    if kind < 0.4 and sizes:  # regroup neighbours
        out, i = [], 0
        while i < len(sizes):
            j = i + RNG.choice([1, 1, 2, 3])
            product = 1
            for s in sizes[i:j]:
                product *= s
            out += [product] if RNG.random() < 0.5 else factors(product, 2)
            i = j
    elif kind < 0.95:
        out = factors(n, RNG.randrange(1, 5)) if n != 1 or RNG.random() < 0.9 else []
    else:
        out = [random_size() for _ in range(RNG.randrange(0, 4))]
    if RNG.random() < 0.3 and out:
        out[RNG.randrange(len(out))] = -1
    if RNG.random() < 0.02 and out:
        out[RNG.randrange(len(out))] = RNG.choice([-1, -2])
    return out


def reshape(t, sizes):
    out = t.reshape(sizes)
    alias = out.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    return text(geometry_of(out)) if alias else "copy " + text(geometry_of(out))


def copy(t):
    return text(geometry_of(t))


def broadcastable(sizes):
    out = [1 if RNG.random() < 0.25 else s for s in sizes]
    return out[RNG.randrange(len(out)):] if out and RNG.random() < 0.2 else out


def main():
    for _ in range(700):
        g = random_geometry()
        sizes = view_sizes(g[0])
        record("view", [g], [sizes], lambda: tensor(g).view(sizes))
        record("reshape", [g], [sizes], lambda: reshape(tensor(g), sizes))
    for _ in range(150):
        g = random_geometry()
        rank = len(g[0])
        t = tensor(g)
        dims = [d - rank if RNG.random() < 0.3 else d for d in RNG.sample(range(rank), rank)]
        if RNG.random() < 0.1 and dims:
            dims[0] = dim(rank)
        record("permute", [g], [dims], lambda: t.permute(dims))
        a, b = dim(rank), dim(rank)
        record("transpose", [g], [a, b], lambda: t.transpose(a, b))
        record("squeeze", [g], [], lambda: t.squeeze())
        record("squeeze.dim", [g], [a], lambda: t.squeeze(a))
        dims = [dim(rank) for _ in range(RNG.randrange(0, 3))]
        record("squeeze.dims", [g], [dims], lambda: t.squeeze(tuple(dims)))
        a = RNG.randrange(-rank - 2, rank + 2)
        record("unsqueeze", [g], [a], lambda: t.unsqueeze(a))
        sizes = [RNG.choice([-1, s, s, random_size()]) if s == 1 else RNG.choice([-1, s, s]) for s in g[0]]
        sizes = [random_size() for _ in range(RNG.randrange(0, 3))] + sizes
        if RNG.random() < 0.1 and sizes:
            sizes[RNG.randrange(len(sizes))] = RNG.choice([7, -1])
        if RNG.random() < 0.05:
            sizes = sizes[1:]
        if not (rank == 0 and -1 in sizes):
            record("expand", [g], [sizes], lambda: t.expand(sizes))
        a, b = dim(rank), dim(rank)
        record("flatten_sizes", [g], [a, b], lambda: ints(tuple(torch.flatten(t, a, b).shape)))
    for _ in range(300):
        g = random_geometry()
        rank = len(g[0])
        t = tensor(g)
        d = dim(rank)
        start = RNG.choice([None, RNG.randrange(-8, 9)])
        end = RNG.choice([None, RNG.randrange(-8, 9), 2**63 - 1, -(2**63)])
        step = RNG.choice([1, 1, 2, 3, 7, 0 if RNG.random() < 0.1 else 1])
        record("slice", [g], [d, start, end, step], lambda: torch.ops.aten.slice(t, d, start, end, step))
        i = RNG.choice([RNG.randrange(-4, 5), RNG.randrange(-2, 2)])
        record("select", [g], [d, i], lambda: t.select(d, i))
        start, length = RNG.randrange(-4, 5), RNG.randrange(-1, 5)
        record("narrow", [g], [d, start, length], lambda: torch.ops.aten.narrow(t, d, start, length))
        a, b, offset = dim(rank), dim(rank), RNG.randrange(-4, 5)
        record("diagonal", [g], [offset, a, b], lambda: t.diagonal(offset, a, b))
        size, step = RNG.randrange(-1, 6), RNG.choice([1, 1, 2, 3, 0])
        record("unfold", [g], [d, size, step], lambda: t.unfold(d, size, step))
    for _ in range(150):
        g = random_geometry()
        sizes = [random_size() for _ in range(RNG.randrange(0, 4))]
        strides = [RNG.choice([0, 1, 2, 5, 9]) for _ in sizes]
        if RNG.random() < 0.1:
            strides = strides[1:] if RNG.random() < 0.5 else [-1] * len(strides)
        offset = RNG.choice([None, 0, 3, -1])
        record("as_strided", [g], [sizes, strides, offset], lambda: tensor(g).as_strided(sizes, strides, offset))
    for _ in range(300):
        g = random_geometry()
        if RNG.random() < 0.7:  # make it likely to work
            sizes = list(g[0]) + [RNG.choice([2, 4, 8, 16])]
            strides = [s * RNG.choice([2, 4, 16, 3]) for s in g[1]] + [1]
            g = (tuple(sizes), tuple(strides), g[2] * RNG.choice([1, 2, 4]))
        a, b = RNG.choice(list(DTYPES)), RNG.choice(list(DTYPES))
        record("view_dtype", [g], [a, b], lambda: tensor(g, DTYPES[a]).view(DTYPES[b]))
        a = RNG.choice(["Float", "ComplexFloat", "ComplexDouble", "Double", "Half", "Int"])
        record("view_as_real", [g], [a], lambda: torch.view_as_real(tensor(g, DTYPES[a])))
        if len(g[0]) and RNG.random() < 0.8:
            g = (g[0][:-1] + (2,), g[1], g[2])
        record("view_as_complex", [g], [a], lambda: torch.view_as_complex(tensor(g, DTYPES[a])))
    for _ in range(400):
        g = random_geometry()
        t = tensor(g)
        record("is_contiguous", [g], [], lambda: t.is_contiguous())
        record("clone", [g], [], lambda: copy(t.clone()))
        record("empty_like", [g], [], lambda: copy(torch.empty_like(t)))
        record("contiguous", [g], [], lambda: copy(t.clone(memory_format=torch.contiguous_format)))
        if len(g[0]) in (4, 5):
            channels_last = torch.channels_last if len(g[0]) == 4 else torch.channels_last_3d
            record("is_channels_last", [g], [], lambda: t.is_contiguous(memory_format=channels_last))
            record("channels_last", [g], [], lambda: copy(t.clone(memory_format=channels_last)))
        record("pointwise", [g], [], lambda: copy(torch.neg(t)))
        record("pointwise", [g, ((), (), 0)], [], lambda: copy(torch.add(t, 2)))
        g2 = random_geometry(sizes=list(g[0]))
        record("pointwise", [g, g2], [], lambda: copy(torch.add(t, tensor(g2))))
        g2 = random_geometry(sizes=broadcastable(g[0]))
        record("pointwise", [g2, g], [], lambda: copy(torch.mul(tensor(g2), t)))
        g3 = random_geometry(sizes=broadcastable(g[0]))
        record("pointwise", [g3, g2, g], [], lambda: copy(torch.addcmul(tensor(g3), tensor(g2), t)))
        if RNG.random() < 0.1:
            g2 = random_geometry()
            record("pointwise", [g, g2], [], lambda: copy(torch.add(t, tensor(g2))))

    seen = sorted(set(LINES))
    header = f"# Made by record_view_rules.py from PyTorch {torch.__version__.split('+')[0]}; its head says how to read a line.\n"
    pathlib.Path(__file__).with_name("view_rules.txt").write_text(header + "\n".join(seen) + "\n")
    print(len(seen), "lines")


if __name__ == "__main__":
    main()
