"""Exports a PyTorch module and records what a caller of the original sees: NAME.pt2 and NAME.case.safetensors.

    from record import record
    record(Module(), [(torch.randn(4, 8),)], "relu_input")

Everything in a case comes from running the original module eagerly; the exported program is only run to learn whether
it agrees. A case's tensors are whole storages and its metadata the geometry, so that who shares memory with whom is
kept: see docs/case_files.md. `python3 record.py FILE.pt2 ...` checks archives against the cases beside them.
"""

import copy
import inspect
import json
import logging
import os
import re
import struct
import sys
import textwrap
import warnings
import zipfile
import zlib

import torch
from torch.utils import _pytree as pytree

torch.set_num_threads(1)  # the order of sums must not depend on the machine's cores
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

DTYPE_NAMES = {
    getattr(torch, n): n for n in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8",
                                   "uint8", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


class NotRecordable(Exception):
    """Eager does not agree with itself, or a case cannot say what happens."""


# Storages ------------------------------------------------------------------------------------------------------------


def identity(t):
    """Which storage a tensor lives in. Not the data pointer: storages of 0 bytes all have the same."""
    return t.untyped_storage()._cdata


def get_bytes(storage):
    # numpy pins a storage it has seen (it cannot be resized any more), so it is shown a clone.
    return torch.empty(0, dtype=torch.uint8).set_(storage).clone().numpy().tobytes() if storage.nbytes() else b""


def make_storage(data):
    if not data:
        return torch.UntypedStorage(0)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).clone().untyped_storage()


def make_tensor(storage, dtype, sizes, strides, offset):
    return torch.empty(0, dtype=dtype).set_(storage, offset, tuple(sizes), tuple(strides))


def clone_tree(tree, known=()):
    """A deep copy in which tensors share storages, and repeat, as in the original. Storages in `known` are kept."""
    storages, tensors = {}, {}

    def clone(t):
        if not isinstance(t, torch.Tensor) or identity(t) in known:
            return t
        if id(t) not in tensors:
            if identity(t) not in storages:
                storages[identity(t)] = make_storage(get_bytes(t.untyped_storage()))
            tensors[id(t)] = make_tensor(storages[identity(t)], t.dtype, t.size(), t.stride(), t.storage_offset())
        return tensors[id(t)]

    return pytree.tree_map(clone, tree)


def byte_range(t):
    """First byte that a non-empty tensor reaches in its storage, and one past the last."""
    last = t.storage_offset() + sum((n - 1) * s for n, s in zip(t.size(), t.stride()))
    return t.storage_offset() * t.itemsize, (last + 1) * t.itemsize


def zero_reached(data, tensors):
    """The bytes of a storage, those that a tensor reaches set to zero."""
    storage = make_storage(data)
    for t in tensors:
        if t.numel():
            sizes = [n if s else 1 for n, s in zip(t.size(), t.stride())]  # fill_ refuses expanded memory
            make_tensor(storage, t.dtype, sizes, t.stride(), t.storage_offset()).fill_(0)
    return get_bytes(storage)


# One call ------------------------------------------------------------------------------------------------------------


def describe_scalar(v):
    if v is None:
        return {"none": True}
    for kind, types in (("bool", bool), ("int", (int, torch.SymInt)), ("float", float), ("string", str)):
        if isinstance(v, types):
            return {kind: int(v) if kind == "int" else v}
    if isinstance(v, complex):
        return {"complex": [v.real, v.imag]}
    raise NotRecordable(f"a case cannot say {type(v).__name__}")


def describe_geometry(t, storage, offset):
    if t.dtype not in DTYPE_NAMES or t.is_conj() or t.is_neg():
        raise NotRecordable(f"a case cannot say {t.dtype}, conj {t.is_conj()}, neg {t.is_neg()}")
    return {
        "storage": storage,
        "dtype": DTYPE_NAMES[t.dtype],
        "sizes": list(t.size()),
        "strides": list(t.stride()),
        "offset": offset
    }


def get_state(module):
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False))
    }


class Observer:
    """Observes calls of one module one after the other; `files` collects the storages' bytes by name."""

    def __init__(self, module, names):
        self.module, self.names = module, names
        self.files = {}
        self.known = {}  # storages of earlier calls that a later argument may live in: identity -> (name, first byte)
        self.keep = []  # storages stay alive, so that no identity is used twice
        self.results = []  # a (flat arguments, flat outputs) a call

    def observe(self, args):
        """Calls the module; returns the call's JSON."""
        c, flat = len(self.results), pytree.tree_leaves(args)
        if len(flat) != len(self.names):
            raise NotRecordable(f"{len(flat)} arguments for the inputs {self.names}")
        before, args_json = self._describe_arguments(c, flat)
        state, owned = {}, {}
        for name, t in get_state(self.module).items():
            self.keep.append(t.untyped_storage())
            state[name] = (self._geometry_of(t), get_bytes(t.untyped_storage()))
            owned.setdefault(identity(t), f"c{c}.b{len(owned)}.after")

        with torch.no_grad():
            try:
                result = self.module(*args)
            except (RuntimeError, IndexError, TypeError, ValueError) as e:
                self.results.append((flat, []))
                return {"args": args_json, "raises": str(e).split("\n")[0]}

        outs = pytree.tree_leaves(result)
        self.results.append((flat, outs))
        now = get_state(self.module)
        after = {**owned, **{k: (name + ".after", low) for k, (name, low) in before.items()}}
        after = {k: v if isinstance(v, tuple) else (v, 0) for k, v in after.items()}
        fresh, named, shown = {}, {}, set()
        for t in [*outs, *flat, *(t for n, t in now.items() if n in state)]:
            if isinstance(t, torch.Tensor) and identity(t) not in after:
                self.keep.append(t.untyped_storage())
                fresh.setdefault(identity(t), []).append(t)

        def describe(t):
            k = identity(t)
            if k in after:
                name, low = after[k]
                shown.add(k)
                self.files[name] = get_bytes(t.untyped_storage())[low:]
            else:
                if k not in named:
                    named[k] = (f"c{c}.o{len(named)}", self._crop(fresh[k]))
                    low, high = named[k][1]
                    data = get_bytes(t.untyped_storage())
                    gaps = zero_reached(data, fresh[k])
                    self.files[named[k][0]] = bytes(a ^ b for a, b in zip(data, gaps))[low:high]
                name, (low, _) = named[k]
            self.known[k] = name, low  # each call leaves contents of its own, under another name
            offset = t.storage_offset() - low // t.itemsize
            return describe_geometry(t, name, offset if t.numel() or k in after else 0)

        outputs = []
        for o in outs:
            if not isinstance(o, torch.Tensor):
                outputs.append(describe_scalar(o))
                continue
            outputs.append(describe(o))
            same = [i for i, a in enumerate(flat) if a is o]
            if same:
                outputs[-1]["same_as_arg"] = same[0]
        after_args = [{"name": n, **describe(a)} for n, a in zip(self.names, flat) if isinstance(a, torch.Tensor)]
        after_state = []
        for name, t in now.items():
            if name in state:
                geometry, data = state[name]
                changed = geometry != self._geometry_of(t) or data != get_bytes(t.untyped_storage())
                if changed or identity(t) in owned and identity(t) in shown:
                    after_state.append({"name": name, **describe(t)})
        return {"args": args_json, "after_args": after_args, "outputs": outputs, "after_state": after_state}

    def _describe_arguments(self, c, flat):
        before, described = {}, []
        for i, (name, a) in enumerate(zip(self.names, flat)):
            if not isinstance(a, torch.Tensor):
                described.append({"name": name, **describe_scalar(a)})
                continue
            self.keep.append(a.untyped_storage())
            k = identity(a)
            if k not in before:
                if k in self.known:  # memory that an earlier call returned
                    before[k] = self.known[k]
                else:
                    before[k] = (f"c{c}.s{len(before)}", 0)
                    self.files[before[k][0]] = get_bytes(a.untyped_storage())
            geometry = describe_geometry(a, before[k][0], a.storage_offset() - before[k][1] // a.itemsize)
            twins = [x for j, x in zip(described, flat) if {**j, **geometry} == j]
            described.append({"name": name, **geometry})
            if twins and twins[0] is not a:
                if any(x is a for x in flat[:i]):
                    raise NotRecordable("a case can repeat only the first of several tensors of one geometry")
                described[-1]["distinct"] = True
        return before, described

    @staticmethod
    def _geometry_of(t):
        return identity(t), t.dtype, t.size(), t.stride(), t.storage_offset()

    @staticmethod
    def _crop(tensors):
        """The bytes of a fresh storage that something reaches, as (first, end), on a border for every dtype there."""
        ranges = [byte_range(t) for t in tensors if t.numel()]
        unit = max(t.itemsize for t in tensors)
        return (min(r[0] for r in ranges) // unit * unit, max(r[1] for r in ranges)) if ranges else (0, 0)


# Comparing two observations ------------------------------------------------------------------------------------------


def is_close(got, want, rtol, atol):
    if want.dtype.is_complex:
        got, want = torch.view_as_real(got.clone()), torch.view_as_real(want.clone())
    if not want.dtype.is_floating_point:
        return torch.equal(got, want)
    least = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}.get(want.dtype, 0) if rtol or atol else 0
    g, w = got.double(), want.double()
    ok = (g - w).abs() <= atol + max(rtol, least) * w.abs()
    return bool((ok | (g == w) | (g.isnan() & w.isnan())).all())


def scalar_is_close(got, want, rtol, atol):
    if isinstance(want, list):  # a complex number
        return all(scalar_is_close(g, w, rtol, atol) for g, w in zip(got, want))
    if isinstance(want, float) and isinstance(got, float):
        return is_close(torch.tensor(got, dtype=torch.float64), torch.tensor(want, dtype=torch.float64), rtol, atol)
    return got == want


class Comparison:
    """Collects in `found`, a line each, how one observed call differs from what a case wants."""

    def __init__(self, want, want_files, got, got_files, rtol, atol):
        self.want_files, self.got_files, self.rtol, self.atol = want_files, got_files, rtol, atol
        self.storages, self.found = {}, []
        if "raises" in want or "raises" in got:
            if ("raises" in want) != ("raises" in got):
                self.found.append(f"raises {got.get('raises')!r} instead of {want.get('raises')!r}")
            return
        for part in ("outputs", "after_args"):
            if len(want[part]) != len(got[part]):
                self.found.append(f"{part}: {len(got[part])} instead of {len(want[part])}")
                continue
            for i, (w, g) in enumerate(zip(want[part], got[part])):
                self._compare_value(f"{part}[{i}]", w, g)
        got_state = {s["name"]: s for s in got["after_state"]}
        for s in want["after_state"]:
            if s["name"] in got_state:
                self._compare_value(f"state {s['name']}", s, got_state.pop(s["name"]))
            else:
                self.found.append(f"state {s['name']}: not touched")
        self.found += [f"state {name}: touched" for name in got_state]
        self._compare_uncovered(want)

    def _compare_value(self, where, w, g):
        if "dtype" not in w or "dtype" not in g:
            keys = [k for k in w if k in g and k != "name"]
            if not keys or not all(scalar_is_close(g[k], w[k], self.rtol, self.atol) for k in keys):
                self.found.append(f"{where}: {g} instead of {w}")
            return
        for field in ("dtype", "sizes", "same_as_arg"):
            if w.get(field) != g.get(field):
                self.found.append(f"{where}: {field} {g.get(field)} instead of {w.get(field)}")
                return
        strides_differ = any(n > 1 and a != b for n, a, b in zip(w["sizes"], w["strides"], g["strides"]))
        if strides_differ and not w.get("strides_free"):
            self.found.append(f"{where}: strides {g['strides']} instead of {w['strides']}")
            return
        ws, gs = w["storage"], g["storage"]
        if not self.want_files[ws] and not self.got_files[gs]:
            return  # nobody can see who shares 0 bytes
        expected = self.storages.setdefault(ws, gs)
        if expected != gs or list(self.storages.values()).count(gs) > 1 or ".s" in ws and ws != gs:
            self.found.append(f"{where}: in storage {gs} instead of {ws}")
        elif w["offset"] != g["offset"]:
            self.found.append(f"{where}: offset {g['offset']} instead of {w['offset']}")
        elif not is_close(self._tensor(g, self.got_files), self._tensor(w, self.want_files), self.rtol, self.atol):
            self.found.append(f"{where}: values differ")

    def _compare_uncovered(self, want):
        for storage in sorted({a["storage"] for a in want["after_args"] if ".s" in a["storage"]}):
            w, g = self.want_files[storage], self.got_files.get(storage, b"")
            reached = [x for x in want["after_args"] + want["outputs"] if x.get("storage") == storage]
            reached = [self._tensor(x, self.want_files) for x in reached]
            if len(w) != len(g):
                self.found.append(f"{storage}: {len(g)} bytes instead of {len(w)}")
            elif zero_reached(w, reached) != zero_reached(g, reached):
                self.found.append(f"{storage}: bytes that nothing reaches differ")

    @staticmethod
    def _tensor(g, files):
        return make_tensor(make_storage(files[g["storage"]]), DTYPES[g["dtype"]], g["sizes"], g["strides"], g["offset"])


# Files ---------------------------------------------------------------------------------------------------------------


def write_safetensors(path, tensors, metadata):
    """`tensors`: name -> (dtype as safetensors says it, shape, bytes). Equal contents give equal bytes."""
    header, at = {"__metadata__": metadata}, 0
    for name, (dtype, shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, (_, _, data) in sorted(tensors.items()):
            f.write(data)


def read_safetensors(path):
    """Returns (tensors, metadata) as write_safetensors takes them."""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    metadata = header.pop("__metadata__", {})
    return {
        k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
        for k, v in header.items()
    }, metadata


def write_case(path, doc, files):
    write_safetensors(path, {k: ("U8", [len(v)], v) for k, v in files.items()}, {"smelt.case": json.dumps(doc)})


def read_case(path):
    tensors, metadata = read_safetensors(path)
    return json.loads(metadata["smelt.case"]), {k: v[2] for k, v in tensors.items()}


# Text that depends on the machine or the run. A stack trace keeps the part of an installed file's path that follows
# site-packages/, and the name of any other file.
REPLACED = [(re.compile(rb'/[^"\\ ]*?/((?:site|dist)-packages/)'), rb"\1"),
            (re.compile(rb'(File \\")/[^"\\]*/([^/"\\]+\\")'), rb"\1\2"),
            (re.compile(rb'(\\"graph_id\\": )\d+'), rb"\g<1>0")]  # an address in memory


def clean_archive(path, compress=False):
    """Takes this machine's paths out of an archive, in place; entries stay stored, aligned to 64 bytes, without dates.

    `compress`: what is JSON is deflated.
    """
    with zipfile.ZipFile(path) as z:
        entries = [(i.filename, z.read(i)) for i in z.infolist()]
    checksum = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name, data in entries:
            if name.endswith(".json"):
                for pattern, replacement in REPLACED:
                    data = pattern.sub(replacement, data)
            if name.endswith("/.data/serialization_id"):  # PyTorch's is a checksum of what was there before
                data = b"%040d" % checksum
            checksum = zlib.crc32(data, checksum)
            info = zipfile.ZipInfo(name)
            pad = -(z.fp.tell() + 30 + len(name) + 4) % 64
            info.extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
            deflate = compress and name.endswith(".json")
            z.writestr(info, data, zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED)


# Recording -----------------------------------------------------------------------------------------------------------


def as_module(f):
    """A module whose forward is the function: the function's signature then names the inputs."""
    if isinstance(f, torch.nn.Module):
        return f
    module = torch.nn.Module()
    module.forward = f
    return module


def run_calls(module, calls, names):
    """Runs the calls on fresh copies of the module and of the arguments; returns (calls' JSON, storages' bytes)."""
    observer, calls_json = Observer(copy.deepcopy(module), names), []
    for call in calls:
        args = call(observer.results) if callable(call) else call
        calls_json.append(observer.observe(clone_tree(args, observer.known)))
    return calls_json, observer.files


def disagreements(a, a_files, b, b_files, rtol, atol):
    return [
        f"call {c}: {line}" for c, (x, y) in enumerate(zip(a, b))
        for line in Comparison(x, a_files, y, b_files, rtol, atol).found
    ]


def export_archive(module, example, path, dynamic_shapes=None, decompose=False):
    """Writes PATH.pt2, training IR unless `decompose`; returns the user inputs' names."""
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(module),
                                      clone_tree(example),
                                      dynamic_shapes=dynamic_shapes,
                                      strict=False)
        if decompose:
            program = program.run_decompositions()
    torch.export.save(program, path + ".pt2")
    clean_archive(path + ".pt2")
    return [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]


def record(f,
           calls,
           path,
           *,
           example=None,
           dynamic_shapes=None,
           decompose=False,
           rtol=1.3e-6,
           atol=1e-5,
           text=None,
           source=None):
    """Writes PATH.pt2 and PATH.case.safetensors; returns how the exported program differs from eager (normally []).

    f: a module, or a function that is made one.
    calls: a tuple of arguments each, or a function that makes it of the earlier calls' [(arguments, outputs), ...].
    example: what it is exported with instead of the first call's arguments.
    text: the model in text form, written as PATH.ir instead of an archive.
    """
    module = as_module(f).eval() if not isinstance(f, torch.nn.Module) else f
    for p in module.parameters():
        p.requires_grad_(False)
    example = calls[0] if example is None else example
    names = [f"a{i}" for i in range(len(pytree.tree_leaves(example)))]
    calls_json, files = run_calls(module, calls, names)
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills what is uninitialized: who shows it is found out
    try:
        again, again_files = run_calls(module, calls, names)
    finally:
        torch.use_deterministic_algorithms(False)
    if found := disagreements(calls_json, files, again, again_files, 0, 0):
        raise NotRecordable(f"{path}: eager differs from itself: {found[:2]}")

    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    if text is None:
        real = export_archive(module, example, path, dynamic_shapes, decompose)
    else:
        with open(path + ".ir", "w") as out:
            out.write(text)
        real = list(inspect.signature(module.forward).parameters)
    if len(real) != len(names):
        raise NotRecordable(f"{path}: {len(names)} arguments, but the inputs {real}")
    for call in calls_json:
        for a in call["args"] + call.get("after_args", []):
            a["name"] = real[names.index(a["name"])]
    if source is None:
        source = textwrap.dedent(inspect.getsource(type(f) if isinstance(f, torch.nn.Module) else f))
    doc = {
        "version": 1,
        "model": os.path.basename(path) + (".pt2" if text is None else ".ir"),
        "rtol": rtol,
        "atol": atol,
        "calls": calls_json,
        "source": source
    }
    write_case(path + ".case.safetensors", doc, files)
    return [] if text is not None else check(path + ".pt2", path + ".case.safetensors")


def check(archive, case):
    """Runs an archive with PyTorch on a case's arguments; returns the differences, a line each."""
    doc, files = read_case(case)
    program = torch.export.load(archive)
    spec = program.call_spec.in_spec
    observer = Observer(program.module(), [a["name"] for a in doc["calls"][0]["args"]])
    kept, found = {}, []
    for c, call in enumerate(doc["calls"]):
        storages, tensors, flat = {}, {}, []
        for a in call["args"]:
            if "storage" not in a:
                value = next((v for k, v in a.items() if k not in ("name", "none")), None)
                flat.append(complex(*value) if "complex" in a else value)
                continue
            if a["storage"] not in storages:
                known = kept.get(a["storage"])
                storages[a["storage"]] = known or (make_storage(files[a["storage"]]), 0)
            storage, low = storages[a["storage"]]
            t = make_tensor(storage, DTYPES[a["dtype"]], a["sizes"], a["strides"],
                            a["offset"] + low // DTYPES[a["dtype"]].itemsize)
            key = (a["storage"], a["dtype"], *a["sizes"], "/", *a["strides"], "/", a["offset"])
            first = tensors.setdefault(key, t)
            flat.append(t if a.get("distinct") else first)
        args, _ = pytree.tree_unflatten(flat, spec)
        got = observer.observe(args)
        for s in observer.keep:
            if s._cdata in observer.known:
                name, low = observer.known[s._cdata]
                kept[name] = (s, low)
        found += disagreements([call], files, [got], observer.files, doc["rtol"], doc["atol"])
    return found


def main(archives):
    bad = 0
    for archive in archives:
        found = check(archive, archive[:-len(".pt2")] + ".case.safetensors")
        bad += bool(found)
        for line in found:
            print(f"{os.path.basename(archive)}: {line}")
    print(f"{len(archives) - bad} of {len(archives)} agree")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
