"""Records which memory PyTorch lets an operator write: overlaps.txt.

    python3 record_overlaps.py

Of every overload that writes one tensor, and of which op_answers.safetensors has a call or a call of its functional
form, PyTorch is asked about the same call with other memory. A line of the table is one call, as JSON:

    op, how       the overload without aten::, and what was done to its memory:
                    expanded      the written tensor has a dim of stride 0
                    empty         the same with no elements: every tensor of its sizes lost the rows of one dim
                    windows       rows of the written tensor begin one element apart and overlap
                    same:NAME     argument NAME is the written tensor
                    alias:NAME    argument NAME is another tensor of the same elements
                    shifted:NAME  argument NAME begins one element behind the written tensor, in its memory
    storages      the bytes of each storage, in hexadecimal
    args          every argument, in the words of op_answers.safetensors (README.md, "Operator answers"); equal words
                  are one tensor but where one says "distinct"
    after         the bytes of the storages that changed, by their number; absent: PyTorch refuses the call

PyTorch computes some of these in an order that its vectors or threads decide. Such an answer is recorded all the same.
"""

import json
import os
import warnings

import torch

from operator_recipes import Variants
from op_table import DTYPE_NAMES, dense_strides, find_operator, read_table, Call
from record import get_bytes, make_storage, make_tensor

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_ELEMENTS, CALLS_OF_AN_OVERLOAD = 12, 1


def written_arguments(op):
    return [i for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]


def plain(v):
    """Whether a call with such an argument can be written down here."""
    if isinstance(v, (list, tuple)):
        return all(plain(x) for x in v)
    if isinstance(v, torch.Tensor):
        return v.layout == torch.strided and v.numel() <= MAX_ELEMENTS and not v.is_quantized
    return v is None or isinstance(v, (int, float, bool, complex, str, torch.dtype, torch.memory_format))


def copy_of(v):
    if isinstance(v, torch.Tensor):
        return make_tensor(make_storage(get_bytes(v.contiguous().untyped_storage())[v.contiguous().storage_offset() * v.element_size():]),
                           v.dtype, list(v.shape), dense_strides(list(v.shape)), 0) if v.is_contiguous() else v.contiguous().clone()
    if isinstance(v, (list, tuple)):
        return [copy_of(x) for x in v]
    return v


class Sample:
    """A call: an operator and the values of all its arguments."""

    def __init__(self, op, values):
        self.op, self.values, self.distinct = op, values, None

    def copied(self):
        return Sample(self.op, [copy_of(v) for v in self.values])

    def run(self):
        schema = self.op._schema.arguments
        torch.manual_seed(0)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return self.op(*[v for v, a in zip(self.values, schema) if not a.kwarg_only],
                           **{a.name: v for v, a in zip(self.values, schema) if a.kwarg_only})

    def runs(self):
        try:
            self.copied().run()
            return True
        except Exception:
            return False


def more_samples():
    """Calls whose operands have the written tensor's sizes, of operators whose recorded calls have others."""
    x, y = torch.arange(9.0).reshape(3, 3) / 4, torch.arange(9.0, 18.0).reshape(3, 3) / 4
    rows, places = torch.tensor([2, 0, 1]), torch.tensor([[1, 2, 0], [0, 1, 2], [2, 0, 1]])
    mask = torch.tensor([[True, False, True], [False, True, False], [True, True, False]])
    square = torch.eye(3) + y / 10
    return [
        ("index_add_", [x, 0, rows, y, 1]), ("index_copy_", [x, 0, rows, y]),
        ("index_reduce_", [x, 0, rows, y, "amax"]), ("index_fill_.int_Scalar", [x, 0, rows, 1.5]),
        ("index_put_", [x, [rows], y, False]), ("index_put_", [x, [rows], torch.tensor(2.0), False]),
        ("_index_put_impl_", [x, [rows], y, False, False]),
        ("scatter_.src", [x, 0, places, y]), ("scatter_.value", [x, 0, places, 1.5]),
        ("scatter_add_", [x, 0, places, y]), ("scatter_reduce_.two", [x, 0, places, y, "sum"]),
        ("masked_scatter_", [x, mask, y]), ("masked_fill_.Scalar", [x, mask, 1.5]), ("put_", [x, places, y]),
        ("gather.out", [y, 0, places, False, x]), ("index_select.out", [y, 0, rows, x]), ("take.out", [y, places, x]),
        ("tril_", [x]), ("triu_", [x]), ("tril.out", [y, 0, x]), ("triu.out", [y, 0, x]), ("copy_", [x, y]),
        ("mm.out", [y, square, x]), ("addmm_", [x, y, square]), ("addmm.out", [y, square, y, 1, 1, x]),
        ("cumsum_", [x, 0]), ("cumprod_", [x, 0]), ("cumsum.out", [y, 0, None, x]), ("sort", [x]),
        ("cat.out", [[y[:1], y[1:]], 0, x]), ("fill_.Scalar", [x, 2.0]), ("zero_", [x]), ("fill_diagonal_", [x, 2.0]),
        ("renorm_", [x, 2, 0, 1.0]), ("where.self_out", [mask, y, square, x]), ("lerp_.Scalar", [x, y, 0.25]),
        ("addcmul_", [x, y, square]), ("clamp_", [x, 0.5, 1.5]), ("threshold_", [x, 0.5, 2.0]),
        ("set_.source_Tensor", [x, y]), ("abs_", [x]), ("mul_.Tensor", [x, y]), ("exp.out", [y, x]),
    ]


def all_samples():
    """The first calls of each overload that writes."""
    data, doc = read_table(os.path.join(HERE, "op_answers.safetensors"))
    found = {}

    def offer(op, values, most=CALLS_OF_AN_OVERLOAD):
        name = op._schema.name.removeprefix("aten::") + ("." + op._overloadname if op._overloadname != "default" else "")
        w = written_arguments(op)
        values = list(values)
        while len(values) < len(op._schema.arguments):
            values.append(op._schema.arguments[len(values)].default_value)
        if len(w) != 1 or len(found.get(name, [])) >= most or not plain(list(values)):
            return
        t = values[w[0]]
        if not isinstance(t, torch.Tensor) or t.numel() < 2 or max(t.shape) < 2:
            return
        sample = Sample(op, list(values))
        if sample.runs():
            found.setdefault(name, []).append(sample)

    for name, values in more_samples():
        offer(find_operator(name), values, most=2)
    for e in doc["entries"]:
        op = find_operator(e["op"])
        if op is None or "::" in e["op"] or e["op"].startswith("resize"):  # what grows holds anything
            continue
        call = Call(e, data)
        if written_arguments(op):
            offer(op, call.args)
            continue
        # The operator's other forms, which write.
        try:
            args, kwargs = Call(e, data).split()
            result = op(*args, **kwargs)
        except Exception:
            continue
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        base = op._schema.name.removeprefix("aten::")
        given = {a.name: v for a, v in zip(op._schema.arguments, call.args)}
        for other_name in (base + "_", base):
            packet = getattr(torch.ops.aten, other_name, None)
            for overload in (packet.overloads() if packet is not None else ()):
                other = getattr(packet, overload)
                w = written_arguments(other)
                if len(w) != 1:
                    continue
                values = Variants.arguments(other._schema, given, results)
                if values is None:
                    continue
                full = []
                for a in other._schema.arguments:
                    full.append(values.get(a.name, a.default_value if a.has_default_value() else None))
                offer(other, full)
    return found


def changed(sample, w, written):
    """The sample with another written tensor."""
    out = sample.copied()
    out.values[w] = written
    return out


def roomy(t, strides):
    """The tensor's first elements at these strides, in a storage that a contiguous tensor fits into, too."""
    return copy_of(t.flatten()).as_strided(list(t.shape), strides)


def expanded(t):
    d = next(d for d in range(t.dim()) if t.size(d) > 1)
    return roomy(t, list(t.select(d, 0).contiguous().unsqueeze(d).expand(t.shape).stride()))


def situations(sample):
    """(how, sample) of each way to lay its memory."""
    schema = sample.op._schema.arguments
    w = written_arguments(sample.op)[0]
    t = sample.values[w].contiguous()
    yield "expanded", changed(sample, w, expanded(t))
    if t.dim() >= 2:
        # Along the dim that is not expanded nothing is left.
        d = next(d for d in range(t.dim()) if t.size(d) > 1)
        gone = next(k for k in range(t.dim()) if k != d)
        out = sample.copied()
        for i, v in enumerate(out.values):
            if isinstance(v, torch.Tensor) and v.shape == t.shape:
                out.values[i] = copy_of(v.narrow(gone, 0, 0))
        size = list(t.shape)
        size[gone] = 0
        base = [1 if k == d else n for k, n in enumerate(size)]
        out.values[w] = torch.empty(base, dtype=t.dtype).expand(size)
        yield "empty", out
        if t.dim() == 2 and t.size(0) > 1 and t.size(1) > 1:
            yield "windows", changed(sample, w, roomy(t, [1, 1]))
    for i, v in enumerate(sample.values):
        if i == w or not isinstance(v, torch.Tensor) or v.dtype != t.dtype or v.shape != t.shape:
            continue
        out = sample.copied()
        out.values[i] = out.values[w]
        yield f"same:{schema[i].name}", out
        out = sample.copied()
        out.values[i] = out.values[w].view(t.shape)
        out.distinct = i
        yield f"alias:{schema[i].name}", out
        out = sample.copied()
        memory = copy_of(torch.cat([t.flatten(), t.flatten()[:1]]))
        out.values[w] = memory[:-1].view(t.shape)
        out.values[i] = memory[1:].view(t.shape)
        yield f"shifted:{schema[i].name}", out


class Words:
    """A call's arguments in the words of op_answers.safetensors, and its storages."""

    def __init__(self):
        self.storages, self.numbers = [], {}

    def of(self, v, argument):
        if isinstance(v, torch.Tensor):
            s = v.untyped_storage()
            number = self.numbers.setdefault(s.data_ptr() or ("empty", len(self.storages)), len(self.storages))
            if number == len(self.storages):
                self.storages.append(s)
            word = {"storage": number, "dtype": DTYPE_NAMES[v.dtype], "sizes": list(v.shape)}
            if list(v.stride()) != dense_strides(list(v.shape)):
                word["strides"] = list(v.stride())
            if v.storage_offset():
                word["offset"] = v.storage_offset()
            return word
        if v is None:
            return {"none": None}
        if isinstance(v, bool):
            return {"bool": v}
        kind = str(argument.type)
        if isinstance(v, int):
            return {"scalar_type": None} if kind == "Optional[ScalarType]" else {"int": v}
        if isinstance(v, float):
            return {"float": v}
        if isinstance(v, complex):
            return {"complex": [v.real, v.imag]}
        if isinstance(v, str):
            return {"string": v}
        if isinstance(v, torch.dtype):
            return {"scalar_type": DTYPE_NAMES[v]}
        if isinstance(v, torch.memory_format):
            return {"memory_format": str(v).removeprefix("torch.")}
        if all(isinstance(x, bool) for x in v) and v:
            return {"bools": list(v)}
        if all(isinstance(x, int) for x in v):
            return {"ints": list(v)}
        if all(isinstance(x, float) for x in v):
            return {"floats": list(v)}
        return {"list": [self.of(x, argument) for x in v]}


def main():
    lines = []
    for name, samples in sorted(all_samples().items()):
        for sample in samples:
            for how, call in situations(sample):
                words = Words()
                entry = {"op": name, "how": how}
                args = [words.of(v, a) for v, a in zip(call.values, call.op._schema.arguments)]
                if call.distinct is not None:
                    args[call.distinct]["distinct"] = True
                before = [get_bytes(s) for s in words.storages]
                entry["storages"] = [b.hex() for b in before]
                entry["args"] = args
                try:
                    call.run()
                    entry["after"] = {
                        str(k): get_bytes(s).hex() for k, s in enumerate(words.storages) if get_bytes(s) != before[k]
                    }
                except Exception as e:
                    if "overlap" not in str(e) and "single memory location" not in str(e):
                        continue  # refused for another reason: its sizes, most often
                lines.append(json.dumps(entry, separators=(",", ":")))
    with open(os.path.join(HERE, "overlaps.txt"), "w") as f:
        f.write("\n".join(lines) + "\n")
    print(len(lines), "calls")


if __name__ == "__main__":
    main()
