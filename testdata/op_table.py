"""The table of operator answers, and the arguments that its makers like to try. README.md, "Operator answers", has the format."""

import json
import math
import zlib

import torch

from record import DTYPE_NAMES, DTYPES, Observer, clone_tree, get_bytes, identity, is_close, make_storage, make_tensor
from record import read_safetensors, write_safetensors, zero_reached

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
I64, I32, I16, I8, U8, BOOL = torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool
C64, C128 = torch.complex64, torch.complex128
FLOATS, INTS = [F64, F32, F16, BF16], [I64, I32, I16, I8, U8]
NAN, INF = math.nan, math.inf
BITS, EQUAL, CLOSE = "bits", "equal", "close"


def find_operator(name):
    """The operator of a name like "add.Tensor", "relu" or, of another namespace than aten, "NAMESPACE::NAME"; or None."""
    namespace, _, name = ("aten::" + name).rpartition("::")
    packet, _, overload = name.partition(".")
    operators = getattr(torch.ops, namespace.rpartition("::")[2])
    return getattr(getattr(operators, packet, None), overload or "default", None)


def shortened(v):
    """An entry without what its reader takes for granted."""
    if isinstance(v, list):
        return [shortened(x) for x in v]
    if not isinstance(v, dict):
        return v
    usual = [("offset", 0), ("compare", CLOSE), ("strides", dense_strides(v.get("sizes", [])))]
    return {k: shortened(x) for k, x in v.items() if (k, x) not in usual}


def dense_strides(sizes):
    """Those of a contiguous tensor."""
    strides = [1] * len(sizes)
    for d in reversed(range(len(sizes) - 1)):
        strides[d] = strides[d + 1] * max(sizes[d + 1], 1)
    return strides


class Table:
    """The entries and the bytes that they share."""

    def __init__(self):
        self.entries, self.data, self.places, self.refused = [], bytearray(), {}, []

    def add(self, name, *args, compare=CLOSE, **kwargs):
        """Runs aten::NAME and keeps what it did. Returns whether PyTorch has it for these arguments."""
        op = find_operator(name)
        if op is None:
            self.refused.append(f"{name}: no such operator")
            return False
        schema = op._schema
        full = list(args)
        for a in schema.arguments[len(args):]:
            if a.name not in kwargs and not a.has_default_value():
                raise TypeError(f"{name}: argument {a.name} is missing")
            full.append(kwargs.pop(a.name, a.default_value))
        if kwargs:
            raise TypeError(f"{name}: has no argument {list(kwargs)}")
        try:
            entry, blobs = self._run(op, schema, full)
            _, again = self._run(op, schema, full, fill=True)
        except (RuntimeError, NotImplementedError, IndexError) as e:
            self.refused.append(f"{name} {[DTYPE_NAMES.get(getattr(a, 'dtype', None)) for a in args]}: {e}"[:150])
            return False
        if blobs != again:
            self.refused.append(f"{name}: shows uninitialized memory")
            return False
        entry["storages"] = [self._place(b) for b in blobs[0]]
        if blobs[1]:
            entry["after"] = {str(k): self._place(b) for k, b in blobs[1].items()}
        entry["compare"] = compare
        self.entries.append(entry)
        return True

    def _place(self, blob):
        if blob not in self.places:
            self.data += b"\0" * (-len(self.data) % 16)
            self.places[blob] = [len(self.data), len(blob)]
            self.data += blob
        return self.places[blob]

    @staticmethod
    def _run(op, schema, args, fill=False):
        args = clone_tree(args)
        numbers, keep, blobs = {}, [], []

        def word(t):
            if t.dtype not in DTYPE_NAMES:
                raise NotImplementedError(f"the table cannot say {t.dtype}")
            return {
                "storage": numbers[identity(t)],
                "dtype": DTYPE_NAMES[t.dtype],
                "sizes": list(t.size()),
                "strides": list(t.stride()),
                "offset": t.storage_offset()
            }

        def describe(v, kind=""):
            if isinstance(v, torch.Tensor):
                return word(v)
            if isinstance(v, (list, tuple)):
                for name, types in (("bools", bool), ("ints", int), ("floats", (int, float))):
                    if v and all(isinstance(x, types) for x in v):
                        return {name: list(v)}
                return {"list": [describe(x) for x in v]} if "Tensor" in kind or v else {"ints": []}
            if v is None:
                return {"none": True}
            if isinstance(v, torch.dtype) or kind == "ScalarType":
                return {"scalar_type": DTYPE_NAMES[v]}
            if isinstance(v, torch.memory_format):
                return {"memory_format": str(v).split(".")[1]}
            if isinstance(v, torch.layout):
                return {"layout": str(v).split(".")[1]}
            if isinstance(v, torch.device):
                return {"device": str(v)}
            if isinstance(v, complex):
                return {"complex": [v.real, v.imag]}
            if isinstance(v, float) or kind == "float":
                return {"float": float(v)}
            return {"bool" if isinstance(v, bool) else "int" if isinstance(v, int) else "string": v}

        def tensors_of(v):
            if isinstance(v, torch.Tensor):
                return [v]
            return [t for x in v for t in tensors_of(x)] if isinstance(v, (list, tuple)) else []

        def number(t):
            if identity(t) not in numbers:
                keep.append(t.untyped_storage())
                numbers[identity(t)] = len(numbers)
                return True
            return False

        inputs = tensors_of(args)
        for t in inputs:
            if number(t):
                blobs.append(get_bytes(t.untyped_storage()))
        entry = {
            "op": schema.name.removeprefix("aten::") + ("." + schema.overload_name if schema.overload_name else ""),
            "args": [describe(v, str(a.real_type)) for v, a in zip(args, schema.arguments)]
        }
        before = [word(t) for t in inputs]

        positional = [v for v, a in zip(args, schema.arguments) if not a.kwarg_only]
        keywords = {a.name: v for v, a in zip(args, schema.arguments) if a.kwarg_only}
        torch.use_deterministic_algorithms(fill, warn_only=True)  # fills uninitialized memory
        try:
            with torch.no_grad():
                result = op(*positional, **keywords)
        finally:
            torch.use_deterministic_algorithms(False)

        several = len(schema.returns) > 1
        results = list(result) if several else [result] if len(schema.returns) == 1 else []
        fresh = {}
        for t in tensors_of(results) + inputs:
            if identity(t) not in numbers or identity(t) in fresh:
                number(t)
                fresh.setdefault(identity(t), []).append(t)
        shift = {}
        for k, ts in fresh.items():
            low, high = Observer._crop(ts)
            data = get_bytes(ts[0].untyped_storage())
            blobs.append(bytes(a ^ b for a, b in zip(data, zero_reached(data, ts)))[low:high])
            shift[k] = low
        outputs = []

        def output(v, kind):
            if isinstance(v, (list, tuple)) and tensors_of(v):
                return {"list": [output(x, kind) for x in v]}
            w = describe(v, kind)
            if isinstance(v, torch.Tensor):
                if identity(v) in shift:
                    w["offset"] -= shift[identity(v)] // v.itemsize if v.numel() else w["offset"]
                same = [i for i, a in enumerate(args) if a is v]
                if same:
                    w["same_as_arg"] = same[0]
            return w

        outputs = [output(v, str(r.real_type)) for v, r in zip(results, schema.returns)]
        entry["outputs"] = outputs
        moved = [{
            "arg": i,
            **output(a, "")
        }
                 for i, a in enumerate(args)
                 if isinstance(a, torch.Tensor) and word(a) != next(b for b, t in zip(before, inputs) if t is a)]
        for m in moved:
            m.pop("same_as_arg", None)
        if moved:
            entry["after_args"] = moved
        after = {n: get_bytes(s) for n, s in enumerate(keep[:len(blobs)]) if n < len(blobs)}
        made = {numbers[k] for k in fresh}
        after = {n: b for n, b in after.items() if n not in made and b != blobs[n]}
        return entry, (blobs, after)

    def write(self, path):
        text = json.dumps(
            {
                "version": 1,
                "torch": torch.__version__.split("+")[0],
                "tolerance": TOLERANCE,
                "entries": [shortened(e) for e in self.entries]
            },
            separators=(",", ":")).encode()
        write_safetensors(path, {
            "data": ("U8", [len(self.data)], bytes(self.data)),
            "entries": ("U8", [len(text)], text)
        }, {"smelt.op_answers": "1"})


TOLERANCE = {"float64": [1e-9, 1e-12], "float32": [1.3e-6, 1e-5], "float16": [1e-3, 1e-5], "bfloat16": [1.6e-2, 1e-5]}

# Arguments -----------------------------------------------------------------------------------------------------------

GENERATOR = torch.Generator()

TABLE = Table()


def add(name, *args, **kwargs):
    """Adds a call of aten::NAME to the table; the random arguments of the next ones depend on their place only."""
    GENERATOR.manual_seed(zlib.crc32(f"{name} {len(TABLE.entries)}".encode()))
    return TABLE.add(name, *args, **kwargs)


def has(name):
    return find_operator(name) is not None


def rand(*sizes, dtype=F32, low=-3.0, high=3.0):
    if dtype == BOOL:
        return torch.rand(sizes, generator=GENERATOR) < 0.5
    if dtype.is_complex:
        parts = torch.rand((*sizes, 2), generator=GENERATOR, dtype=F64) * (high - low) + low
        return torch.view_as_complex(parts).to(dtype)
    t = torch.rand(sizes, generator=GENERATOR, dtype=F64) * (high - low) + low
    if dtype == U8:
        t = t.abs()
    return t.to(dtype)


def ints(*sizes, low=0, high=10, dtype=I64):
    return torch.randint(low, high, sizes, generator=GENERATOR, dtype=dtype)


def special(dtype):
    """Values at which a scalar operation has to be careful."""
    if dtype == BOOL:
        return torch.tensor([False, True, True, False])
    if dtype.is_complex:
        return torch.tensor([0j, 1 + 0j, 1j, -1 - 2j, 0.5 + 3j, -2.5 + 0.25j, 3 - 4j], dtype=dtype)
    if not dtype.is_floating_point:
        return torch.tensor([0, 1, 2, 3, 7, 100, 127] if dtype == U8 else [0, 1, 2, -1, -2, 7, -7, 100, 127, -128],
                            dtype=dtype)
    info = torch.finfo(dtype)
    smallest = {F64: 5e-324, F32: 1.4e-45, F16: 6e-8, BF16: 9.2e-41}[dtype]
    values = [
        NAN, INF, -INF, 0.0, -0.0, smallest, -3 * smallest, info.tiny, -info.tiny / 4, info.max, info.min, info.eps,
        0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 0.49999997, 3.1415927, -1.5707964, 6.5, -6.5, 12.0, -20.0, 89.0, -104.0,
        1e-3, -1e-3, 0.9999999, 255.0, 60000.0
    ]
    return torch.tensor(values, dtype=F64).to(dtype)


def transposed(t):
    """The same values in reversed memory order."""
    order = list(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order)


def spaced(t):
    """The same values, every second element of a larger storage, starting late."""
    base = torch.zeros([n * 2 + 1 for n in t.shape], dtype=t.dtype)
    view = base[tuple(slice(1, None, 2) for _ in t.shape)]
    view.copy_(t)
    return view


# Reading -------------------------------------------------------------------------------------------------------------


def read_table(path):
    tensors, _ = read_safetensors(path)
    return tensors["data"][2], json.loads(tensors["entries"][2])


class Call:
    """One entry of a table, made again from nothing but what is in the file: `op`, `args`, and their `storages`."""

    def __init__(self, entry, data):
        self.op = find_operator(entry["op"])
        self.storages = [make_storage(data[at:at + n]) for at, n in entry["storages"]]
        self.made = {}
        self.args = [self.value(w) for w in entry["args"]]

    def value(self, w):
        if "storage" in w:
            return self.made.setdefault(json.dumps(w), tensor_of(w, self.storages))
        (kind, v), = w.items()
        convert = {
            "none": lambda v: None,
            "list": lambda v: [self.value(x) for x in v],
            "scalar_type": DTYPES.get,
            "memory_format": lambda v: getattr(torch, v),
            "layout": lambda v: getattr(torch, v),
            "device": torch.device,
            "complex": lambda v: complex(*v)
        }
        return convert.get(kind, lambda v: v)(v)

    def split(self):
        """(positional arguments, keyword arguments)"""
        schema = self.op._schema.arguments
        return ([v for v, a in zip(self.args, schema) if not a.kwarg_only], {
            a.name: v for v, a in zip(self.args, schema) if a.kwarg_only
        })


def tensor_of(w, storages):
    strides = w.get("strides", dense_strides(w["sizes"]))
    return make_tensor(storages[w["storage"]], DTYPES[w["dtype"]], w["sizes"], strides, w.get("offset", 0))


def check(path):
    """Runs every entry of a table again; returns the differences, a line each."""
    data, doc = read_table(path)
    found = []
    for e in doc["entries"]:
        call, name = Call(e, data), e["op"]
        places = {**dict(enumerate(e["storages"])), **{int(k): place for k, place in e.get("after", {}).items()}}
        after = [data[at:at + n] for _, (at, n) in sorted(places.items())]

        def compare(where, got, want):
            if "list" in want:
                for x, w in zip(got, want["list"], strict=True):
                    compare(where, x, w)
            elif "storage" not in want:
                v = call.value(want)
                same = got == v or got != got and v != v or isinstance(v, float) and abs(got - v) <= 1e-6 * abs(v)
                if not same:
                    found.append(f"{name} {where}: {got} instead of {v}")
            else:
                w = tensor_of(want, [make_storage(b) for b in after])
                rtol, atol = doc["tolerance"].get(want["dtype"], [1e-5, 1e-5]) if e.get("compare", CLOSE) == CLOSE else (0, 0)
                geometry = got.dtype == w.dtype and got.size() == w.size() and got.stride() == w.stride()
                if not geometry or not is_close(got, w, rtol, atol):
                    found.append(f"{name} {where}: differs")

        args, kwargs = call.split()
        got = call.op(*args, **kwargs)
        for k, (x, w) in enumerate(zip(got if len(e["outputs"]) > 1 else [got], e["outputs"])):
            compare(f"output {k}", x, w)
        for w in e.get("after_args", []):
            compare(f"argument {w['arg']}", call.args[w["arg"]], w)
        for k in map(int, e.get("after", {})):
            if e.get("compare") == BITS and get_bytes(call.storages[k]) != after[k]:
                found.append(f"{name}: storage {k} differs")
    return found
