"""Records how PyTorch lays out the results of every operator that smelt describes: writes layout_rules.txt beside this file.

    python3 record_layout_rules.py              # takes some minutes; needs `pip install expecttest`
    python3 record_layout_rules.py CALLS.pkl    # with the calls that `python3 layout_calls.py CALLS.pkl` found

A line is tab-separated: the arguments of a call, the sizes of its tensor results, what each layout of its operands gives,
and the operators, separated by blanks, that all do the same.

An argument is a tensor "f32[2,3]", a number, "T" or "F", a string in quotes, "~" for None, "^NAME" for a device, or a list
"(a;b)"; dtypes, formats and layouts are PyTorch's codes. Arguments at the end that have the schema's defaults are left out.

Layouts are written LAYOUT_OF_RESULTS:OPERANDS, separated by blanks. OPERANDS names the tensors, counted as they come in the
arguments, that do not lie contiguously, and how they lie: "=" none does; "0tg,1l" are three calls, operand 0 in layout t, it in
layout g, operand 1 in layout l; "*t" is one call in which all lie so; "0t+1l" is one call. LAYOUTS below has the letters.
LAYOUT_OF_RESULTS has a word for each tensor result, separated by "/": "c" contiguous; "<201>" dense with the dims in this
order, from the largest stride on, without those of size 1; "12.x.1" the strides, x where the size is 1. Results without
elements are "c".
"""

import pathlib
import pickle
import sys
import warnings

import torch

import layout_calls
from layout_calls import flat, in_child
from op_table import find_operator

HERE = pathlib.Path(__file__).parent
MOST_SAMPLES, MOST_OF_WRITES = 7, 2
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
          torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "b",
          torch.complex64: "c64", torch.complex128: "c128"}
CODES = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
         torch.float64: 7, torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15,
         torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3,
         torch.strided: 0}

# Layouts -------------------------------------------------------------------------------------------------------------


def in_order(sizes, order, gap=0, step=1):
    """Strides with the dims in this order, from the largest on; `gap` places, and each element `step`, in the last one."""
    strides, n = [0] * len(sizes), step
    for k, d in enumerate(reversed(order)):
        strides[d] = n
        n *= max(sizes[d], 1) + (gap if k == 0 else 0)
    return strides


def dense(sizes):
    return in_order(sizes, range(len(sizes)))


def expanded(sizes, dims):
    kept = [1 if d in dims else n for d, n in enumerate(sizes)]
    return [0 if d in dims else s for d, s in enumerate(dense(kept))]


def channels_last(rank):
    return [0, *range(2, rank), 1]


LAYOUTS = {  # the rank from which on it is another one, and the strides
    "t": (2, lambda s: in_order(s, range(len(s))[::-1])),  # dims reversed
    "s": (3, lambda s: in_order(s, [*range(len(s) - 2), len(s) - 1, len(s) - 2])),  # the last two swapped
    "u": (3, lambda s: in_order(s, [1, 0, *range(2, len(s))])),  # the first two swapped
    "l": (4, lambda s: in_order(s, channels_last(len(s)))),  # channels last
    "g": (1, lambda s: in_order(s, range(len(s)), gap=1)),  # rows of a larger tensor
    "h": (1, lambda s: in_order(s, range(len(s)), step=2)),  # every second element
    "G": (2, lambda s: in_order(s, channels_last(len(s)) if len(s) > 3 else range(len(s))[::-1], gap=1)),
    "e": (1, lambda s: expanded(s, [0])),
    "m": (2, lambda s: expanded(s, [1])),
    "f": (3, lambda s: expanded(s, [len(s) - 1])),
    "z": (2, lambda s: expanded(s, range(len(s)))),
    "o": (2, lambda s: [1 if n == 1 else k for n, k in zip(s, dense(s))]),  # where dims have one element
    "q": (2, lambda s: [7 if n == 1 else k for n, k in zip(s, in_order(s, range(len(s))[::-1]))]),
}
EXPANDED = "emfz"
PAIRS = ["tl", "lt", "lg", "et", "te", "st"]


def laid_out(t, letter):
    """A tensor with t's elements, in that layout; None where it would be no other. What is expanded has some of them."""
    if letter == "c":
        return t.clone()
    rank, strides_of = LAYOUTS[letter]
    sizes = list(t.shape)
    if t.dim() < rank or (letter in "oq" and 1 not in sizes):
        return None
    strides = strides_of(sizes)
    if letter in "tsul" and shown(sizes, strides) == shown(sizes, dense(sizes)):
        return None
    extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides) if n)
    base = torch.zeros(max(extent, 1), dtype=t.dtype)
    view = base.as_strided(sizes, strides)
    if letter in EXPANDED:
        for d, s in enumerate(strides):
            if s == 0 and sizes[d] > 1:
                view, t = view.narrow(d, 0, 1), t.narrow(d, 0, 1)
    view.copy_(t)
    return base.as_strided(sizes, strides)


def shown(sizes, strides):
    return [s for n, s in zip(sizes, strides) if n > 1]


def layout_word(t):
    sizes, strides = list(t.shape), list(t.stride())
    if t.numel() == 0 or shown(sizes, strides) == shown(sizes, dense(sizes)):
        return "c"
    order = sorted((d for d in range(len(sizes)) if sizes[d] > 1), key=lambda d: -strides[d])
    if shown(sizes, in_order(sizes, order)) == shown(sizes, strides):
        return "<" + "".join(map(str, order)) + ">"
    return ".".join("x" if n == 1 else str(s) for n, s in zip(sizes, strides))


# Arguments -----------------------------------------------------------------------------------------------------------


def text(v, kind):
    if isinstance(v, torch.Tensor):
        return f"{DTYPES[v.dtype]}[{','.join(map(str, v.shape))}]"
    if isinstance(v, (list, tuple, torch.Size)):
        return "(" + ";".join(text(x, "") for x in v) + ")"
    if v is None:
        return "~"
    if isinstance(v, bool):
        return "T" if v else "F"
    if isinstance(v, (torch.dtype, torch.memory_format, torch.layout)):
        return str(CODES[v])
    if isinstance(v, torch.device):
        return f"^{v}"
    if isinstance(v, str):
        return f"'{v}'"
    if isinstance(v, complex):
        return f"{v.real}+{v.imag}j"
    if isinstance(v, float) or (kind == "float" and isinstance(v, int)):
        return repr(float(v))
    if isinstance(v, int):
        return str(v)
    raise NotImplementedError(type(v))


def arguments_text(schema, args):
    n = len(args)
    while n and schema.arguments[n - 1].has_default_value() and not flat(args[n - 1]) and same(
            args[n - 1], schema.arguments[n - 1].default_value):
        n -= 1
    return " ".join(text(v, str(a.real_type)) for v, a in zip(args[:n], schema.arguments))


def same(a, b):
    return type(a) is type(b) and a == b


def split(schema, args):
    pairs = list(zip(args, schema.arguments))
    return [v for v, a in pairs if not a.kwarg_only], {a.name: v for v, a in pairs if a.kwarg_only}


def with_tensors(v, tensors):
    if isinstance(v, torch.Tensor):
        return next(tensors)
    if isinstance(v, (list, tuple)):
        return [with_tensors(x, tensors) for x in v]
    return v


# Which calls ---------------------------------------------------------------------------------------------------------


def features(args):
    found = {"call"}
    for k, v in enumerate(args):
        for t in flat(v):
            found |= {(k, t.dim(), 1 in t.shape and t.dim() > 2), (k, "tensor")}
        if not flat(v):
            found.add((k, type(v).__name__ if isinstance(v, (float, list)) else str(v)))
    return found


def chosen(calls, most=MOST_SAMPLES):
    """Some that differ most, those of many dims first."""
    filled = [c for c in calls if all(t.numel() for t in flat(c))]
    left = sorted(filled or calls, key=lambda c: (-max((t.dim() * 10 + min(t.shape, default=0) for t in flat(c)), default=0)))
    have, out = set(), []
    while left and len(out) < most:
        best = max(range(len(left)), key=lambda k: len(features(left[k]) - have))
        if not features(left[best]) - have:
            break
        have |= features(left[best])
        out.append(left.pop(best))
    return out


def is_out(a):
    return a.alias_info is not None and a.alias_info.is_write and a.kwarg_only


def is_unchecked(name, args, sizes):
    """Calls that PyTorch takes though their operands do not fit each other: what it gives then says nothing."""
    if name == "aten::gradient":
        return any(s != list(args[0].shape) for s in sizes)
    if name == "aten::addbmm_":
        return sizes[0] != list(args[0].shape)
    v, g = (args + [None, None])[:2]
    return name.startswith("aten::_weight_norm") and (g.dim() != v.dim() or g.numel() != max(g.shape, default=1))


class Recorder:
    """The lines of one operator."""

    def __init__(self, lines):
        self.lines = lines

    def record(self, op, args):
        schema = op._schema
        given_as_tensors = any(flat(v) and "Tensor" not in str(a.real_type) for v, a in zip(args, schema.arguments))
        if given_as_tensors:
            return
        outs = [t for v, a in zip(args, schema.arguments) if is_out(a) for t in flat(v)]
        if outs:  # that are resized
            args = [
                with_tensors(v, iter([t.new_empty(0) for t in flat(v)])) if is_out(a) else v
                for v, a in zip(args, schema.arguments)
            ]
        try:
            line = arguments_text(schema, args)
        except (NotImplementedError, KeyError):
            return
        tensors = flat(args)
        varied = [k for k, t in enumerate(tensors) if not any(t is o for v, a in zip(args, schema.arguments) if is_out(a)
                                                               for o in flat(v))]
        base = self.run(op, args, tensors, {})
        if base is None or all(t.numel() == 0 for t in flat(base)):
            return
        sizes = [list(t.shape) for t in flat(base)]
        if is_unchecked(schema.name, args, sizes):
            return
        groups = {}

        def note(how, word, letters):
            result = self.run(op, args, tensors, letters)
            if result is None or [list(t.shape) for t in flat(result)] != sizes:
                return
            groups.setdefault("/".join(map(layout_word, flat(result))), []).append((how, word))

        note("", "=", {})
        few = len(varied) > 4
        for k in varied:
            for letter in "tlsge" if few else LAYOUTS:
                if laid_out(tensors[k], letter) is not None:
                    note(str(k), letter, {k: letter})
        if len(varied) > 1:
            for letter in LAYOUTS:
                letters = {k: letter for k in varied if laid_out(tensors[k], letter) is not None}
                if len(letters) == len(varied):
                    note("*", letter, letters)
        for j, i in [(j, i) for i in varied[:3] for j in varied[:3] if j < i]:
            for a, b in PAIRS:
                if laid_out(tensors[j], a) is not None and laid_out(tensors[i], b) is not None:
                    note("", f"{j}{a}+{i}{b}", {j: a, i: b})
        cases = []
        for word, calls in groups.items():
            said, last = [], ""
            for how, which in calls:
                if how and how == last:
                    said[-1] += which
                else:
                    said.append(how + which)
                last = how
            cases.append(word + ":" + ",".join(said))
        outputs = " ".join("[" + ",".join(map(str, s)) + "]" for s in sizes)
        self.lines.append("\t".join([line, outputs, " ".join(cases)]))

    @staticmethod
    def run(op, args, tensors, letters):
        made = [laid_out(t, letters.get(k, "c")) for k, t in enumerate(tensors)]
        given = {t.untyped_storage().data_ptr() for t in made}
        positional, keywords = split(op._schema, with_tensors(args, iter(made)))
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.filterwarnings("error", message="An output with one or more elements was resized")
                result = op(*positional, **keywords)
            # A new tensor whose elements overlap has no elements of its own to speak of.
            if any(0 in shown(t.shape, t.stride()) and t.untyped_storage().data_ptr() not in given for t in flat(result)):
                return None
            return result if all(layout_calls.is_plain(t) or t.numel() for t in flat(result)) else None
        except Exception:  # some layouts are refused
            return None


def record_all(calls, log):
    names = layout_calls.described_overloads()
    lines, without = {}, []
    torch.set_num_threads(1)

    def work(collector, part, only=None):
        for name in part:
            collector.calls[name] = found = []
            op = find_operator(name)
            writes = any(a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments)
            samples = chosen(calls.get(name, []), MOST_OF_WRITES if writes else MOST_SAMPLES)
            for args in samples if only is None else samples[only:only + 1]:
                torch.manual_seed(0)
                Recorder(found).record(op, args)

    for k in range(0, len(names), 25):
        part = names[k:k + 25]
        got = in_child(lambda c: work(c, part))
        for name in part:
            if name not in got:
                got.update(in_child(lambda c: work(c, [name])))
            if name not in got:  # one of them ends the process
                found = [in_child(lambda c: work(c, [name], k)).get(name, []) for k in range(MOST_SAMPLES)]
                got[name] = sum(found, [])
            for line in sorted(set(got.get(name, []))):
                lines.setdefault(line, []).append(name.removeprefix("aten::"))
            returns = find_operator(name)._schema.returns
            if not got.get(name) and any("Tensor" in str(r.type) for r in returns):
                without.append(name.removeprefix("aten::"))
        if k % 500 == 0:
            log(f"{k} of {len(names)}: {len(lines)} lines")
    return names, lines, without


def main():
    if len(sys.argv) > 1:
        calls = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
    else:
        calls = layout_calls.collect(print)
    names, lines, without = record_all(calls, print)
    header = (f"# Made by record_layout_rules.py from PyTorch {torch.__version__.split('+')[0]}; its head says how to read a "
              f"line.\n# {len(names)} operators; no call was found of {len(without)}: {' '.join(without)}\n")
    body = "".join(f"{line}\t{' '.join(ops)}\n" for line, ops in sorted(lines.items()))
    path = HERE / "layout_rules.txt"
    path.write_text(header + body)
    print(f"{len(names)} operators, {len(without)} without calls, {len(lines)} lines, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
