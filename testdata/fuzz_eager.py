"""Runs programs of smelt-fuzz in eager PyTorch and compares with what smelt's evaluator says a caller sees.

  smelt-fuzz --emit=/tmp/programs.jsonl --count=10000 --seed=1
  python3 fuzz_eager.py /tmp/programs.jsonl

Prints each difference, then how many there were; `--show NAME` prints one program as Python would run it.
"""
import json
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
          "int64": torch.int64, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8,
          "bool": torch.bool, "complex64": torch.complex64, "complex128": torch.complex128}
NAMES = {v: k for k, v in DTYPES.items()}


def storage_of(hex_bytes):
    data = bytes.fromhex(hex_bytes)
    storage = torch.UntypedStorage(len(data))
    if data:
        torch.empty(0, dtype=torch.uint8).set_(storage, 0, (len(data),), (1,)).copy_(
            torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return storage


def bytes_of(storage):
    n = storage.nbytes()
    if n == 0:
        return b""
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (n,), (1,)).numpy().tobytes()


def tensor_of(geometry, storages):
    t = torch.empty(0, dtype=DTYPES[geometry["dtype"]])
    return t.set_(storages[geometry["storage"]], geometry["offset"], geometry["sizes"], geometry["strides"])


_OPS = {}


def operator(full):
    """The overload, its positional and its keyword arguments' names."""
    if full not in _OPS:
        name, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, name)
        op = getattr(packet, overload or "default")
        _OPS[full] = (op, [a.name for a in op._schema.arguments], [a.kwarg_only for a in op._schema.arguments])
    return _OPS[full]


class Program:
    def __init__(self, program):
        self.p = program
        self.values = {}
        self.steps = 0

    def run(self):
        self.storages = [storage_of(s) for s in self.p["storages"]]
        self.weight_storages = [storage_of(s) for s in self.p["weight_storages"]]
        self.weights = [tensor_of(w, self.weight_storages) for w in self.p["weights"]]
        self.args = []
        for a in self.p["args"]:
            if isinstance(a, dict):
                self.args.append(self.args[a["same"]] if "same" in a else tensor_of(a, self.storages))
            else:
                self.args.append(a)
        user = iter(self.args)
        inputs = [self.weights[w] if w >= 0 else next(user) for w in self.p["inputs"]]
        return self.block(self.p["body"], inputs)

    def block(self, b, params):
        self.values.update(zip(b["params"], params))
        for n in b["nodes"]:
            self.node(n)
        return [self.values[v] for v in b["results"]]

    def node(self, n):
        op, args = n["op"], [self.values[v] for v in n["inputs"]]
        if op == "prim::Constant":
            results = [n["value"]]
        elif op == "prim::ListConstruct":
            results = [args]
        elif op == "prim::ListUnpack":
            results = list(args[0])
        elif op in ("prim::If", "smelt::cond"):
            results = self.block(n["blocks"][0 if bool(args[0]) else 1], args[1:])
        elif op == "prim::Loop":
            results, i, go = args[2:], 0, bool(args[1])
            while go and i < args[0]:
                go, *results = self.block(n["blocks"][0], [i, *results])
                i += 1
        elif op == "smelt::while_loop":
            cond, body = n["blocks"]
            results, rounds = args, 0
            while bool(self.block(cond, results)[0]):
                results = self.block(body, results) + results[len(body["results"]):]
                rounds += 1
            if rounds == 0:
                results = [r.clone() if isinstance(r, torch.Tensor) else r for r in results]
        else:
            results = self.call(op, args)
        self.values.update(zip(n["outputs"], results))

    def call(self, full, args):
        if full == "aten::Bool.Tensor":
            return [bool(args[0])]
        op, names, keyword = operator(full)
        grown = args[0].untyped_storage().nbytes() if full.startswith("aten::resize_") else None
        out = op(*[a for a, k in zip(args, keyword) if not k], **{n: a for a, n, k in zip(args, names, keyword) if k})
        if grown is not None and args[0].untyped_storage().nbytes() > grown:
            # PyTorch leaves new bytes as they happen to be.
            raw = args[0].untyped_storage()
            torch.empty(0, dtype=torch.uint8).set_(raw, grown, (raw.nbytes() - grown,), (1,)).zero_()
        return [out] if len(op._schema.returns) == 1 else list(out or [])


class Seen:
    """What the caller sees: numbers of storages, as smelt counts them."""

    def __init__(self, run, outputs):
        self.run = run
        states = list(run.weight_storages)
        for w, t in zip(run.p["weights"], run.weights):
            states[w["storage"]] = t.untyped_storage()
        self.storages = []
        for s in list(run.storages) + states:
            self.number(s)
        self.known = len(self.storages)
        self.outputs, self.args, self.states = ([self.value(v) for v in vs]
                                                for vs in (outputs, run.args, run.weights))

    def number(self, s):
        for k, other in enumerate(self.storages):
            if other._cdata == s._cdata:
                return k
        self.storages.append(s)
        return len(self.storages) - 1

    def value(self, v):
        if not isinstance(v, torch.Tensor):
            return v
        out = {"storage": self.number(v.untyped_storage()), "dtype": NAMES[v.dtype], "sizes": list(v.shape),
               "strides": list(v.stride()), "offset": v.storage_offset(), "tensor": v}
        for what, tensors in (("argument", self.run.args), ("state", self.run.weights)):
            for i, t in enumerate(tensors):
                if t is v:
                    return {**out, "is": f"{what} {i}"}
        return out


def differ_values(dtype, want, got):
    """Of two 1-D tensors of one dtype."""
    if want.numel() != got.numel():
        return f"{want.numel()} elements, smelt has {got.numel()}"
    if not dtype.is_floating_point and not dtype.is_complex:
        return "" if torch.equal(want, got) else f"{want.tolist()}, smelt has {got.tolist()}"
    w, g = (torch.view_as_real(t) if dtype.is_complex else t for t in (want, got))
    w, g = w.double(), g.double()
    finite = w[torch.isfinite(w)].abs()
    tolerance = (2e-2 if dtype in (torch.float16, torch.bfloat16) else 2e-5) * max(1.0, finite.max().item() if finite.numel() else 0)
    same = (w == g) | (w.isnan() & g.isnan()) | ((w - g).abs() <= tolerance)
    return "" if same.all() else f"{want.tolist()}, smelt has {got.tolist()}"


def view_bytes(dtype, data):
    item = torch.empty(0, dtype=dtype).element_size()
    data = data[: len(data) // item * item]
    return torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)


class Comparison:
    def __init__(self, seen, expected):
        self.seen, self.smelt = seen, expected
        self.smelt_storages = [storage_of(s) for s in expected["storages"]]
        self.number, self.first = {}, {}

    def values(self, where, want, got):
        if not isinstance(want, dict) or not isinstance(got, dict):
            same = want == got and type(want) is type(got)
            return "" if same else f"{where}: {want}, smelt has {got}"
        for key in ("dtype", "sizes"):
            if want[key] != got[key]:
                return f"{where}: {key} {want[key]}, smelt has {got[key]}"
        empty = 0 in want["sizes"]
        if not empty:
            w, g = ([st for s, st in zip(x["sizes"], x["strides"]) if s > 1] for x in (want, got))
            if w != g:
                return f"{where}: strides {want['strides']}, smelt has {got['strides']} of sizes {want['sizes']}"
            item = torch.empty(0, dtype=DTYPES[want["dtype"]]).element_size()
            known = self.number.setdefault(("torch", want["storage"]), got["storage"])
            back = self.number.setdefault(("smelt", got["storage"]), want["storage"])
            if known != got["storage"] or back != want["storage"] or (
                    want["storage"] != got["storage"] and min(want["storage"], got["storage"]) < self.seen.known):
                return f"{where}: in storage {want['storage']}, smelt has {got['storage']}"
            at, smelt_at = want["offset"] * item, got["offset"] * item
            if want["storage"] >= self.seen.known:  # offsets in new memory count relative to each other
                a, b = self.first.setdefault(want["storage"], (at, smelt_at))
                at, smelt_at = at - a, smelt_at - b
            if at != smelt_at:
                return f"{where}: at byte {at}, smelt has {smelt_at}"
        if want.get("is") != got.get("is"):
            return f"{where}: is {want.get('is')}, smelt has {got.get('is')}"
        t = want["tensor"].resolve_conj().resolve_neg().contiguous().reshape(-1)
        d = differ_values(t.dtype, t, tensor_of(got, self.smelt_storages).contiguous().reshape(-1))
        return f"{where}: {d}" if d else ""

    def run(self, program):
        for what in ("outputs", "args", "states"):
            want, got = getattr(self.seen, what), self.smelt[what]
            if len(want) != len(got):
                return f"{len(want)} {what}, smelt has {len(got)}"
            for k, (w, g) in enumerate(zip(want, got)):
                if d := self.values(f"{what}[{k}]", w, g):
                    return d
        dtype = {a["storage"]: DTYPES[a["dtype"]] for a in reversed(program["args"]) if isinstance(a, dict) and "storage" in a}
        for s in range(self.seen.known):
            t = dtype.get(s, torch.uint8)
            if s >= len(program["storages"]):
                t = next((DTYPES[w["dtype"]] for w in program["weights"] if w["storage"] == s - len(program["storages"])), t)
            d = differ_values(t, view_bytes(t, bytes_of(self.seen.storages[s])), view_bytes(t, bytes.fromhex(self.smelt["storages"][s])))
            if d:
                return f"storage {s}: {d}"
        return ""


def difference(program):
    run, refused, outputs = Program(program), program["seen"]["refused"], None
    try:
        with torch.no_grad():
            outputs = run.run()
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as e:
        if refused is not None:
            return ""
        return f"PyTorch refuses: {str(e).splitlines()[0]}"
    if refused is not None:
        return f"PyTorch accepts, smelt refuses: {refused}"
    return Comparison(Seen(run, outputs), program["seen"]).run(program)


def show(program):
    def block(b, indent):
        for n in b["nodes"]:
            print(" " * indent + ", ".join(n["outputs"]), "=", n["op"], n.get("value", ""), n["inputs"])
            for inner in n.get("blocks", []):
                print(" " * indent + "  block", inner["params"])
                block(inner, indent + 4)
        print(" " * indent + "return", b["results"])

    print(program["inputs"], program["body"]["params"], program["args"], program["weights"])
    block(program["body"], 0)


def main():
    name = sys.argv[3] if len(sys.argv) > 3 and sys.argv[2] == "--show" else None
    count = different = refused = 0
    for line in open(sys.argv[1]):
        program = json.loads(line)
        if name is not None:
            if program["name"] == name:
                show(program)
                print(difference(program))
            continue
        count += 1
        refused += program["seen"]["refused"] is not None
        d = difference(program)
        if d:
            different += 1
            print(f"{program['name']}: {d}", flush=True)
    if name is None:
        print(f"{count} programs: {different} different, {refused} refused by smelt")
        return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
