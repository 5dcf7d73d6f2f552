"""Holds smelt-opt's answers about single operators to what they do to memory when they run: every operator of PyTorch.

    python3 bench/alias/operators.py bazel-bin/tools/smelt-opt [--only=PATTERN] [--missed=FILE] [--keep=FILE] [--recorded=FILE] [-v]

Makes calls of every registered operator that takes or gives tensors (testdata/find_hidden_effects.py has the sources:
PyTorch's own samples, recorded calls, recipes, arguments made from schemas, and each call once more by the other forms of its operator), runs
them in children, and notes who shares bytes with whom, which bytes change, and whether random numbers were drawn.
Then each call is written as a graph of TorchScript text, the operator without its overload, in three forms: constant
flags known, unknown, and the tensors' types given; smelt-opt and TorchScript's alias_db are asked. Prints what happened
but was not predicted (exit code 1), what is said and never happened although TorchScript knows better, and the
operators that could not be run, by reason. Needs `pip install expecttest`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "testdata"))
import find_hidden_effects as calls  # noqa: E402
from find_hidden_effects import parts  # noqa: E402
from operator_recipes import Variants, run_recipes  # noqa: E402
from record import get_bytes  # noqa: E402

KEPT = 10  # calls of each operator, of different kinds
TYPES = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"
}
CODES = {d: k for k, d in enumerate([torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
                                     torch.float32, torch.float64, None, torch.complex64, torch.complex128, torch.bool])}
CODES[torch.bfloat16] = 15
FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3}

# Watching a call -----------------------------------------------------------------------------------------------------


def flat(v):
    """The tensors of an argument or result."""
    if isinstance(v, torch.Tensor):
        return [v]
    return [t for x in v for t in flat(x)] if isinstance(v, (list, tuple)) else []


def places(t):
    """The addresses of the bytes."""
    out = set()
    for p in parts(t):
        if p.numel() == 0 or p.numel() > 20000 or p.device.type != "cpu":
            continue
        offsets = {0}
        for n, s in zip(p.shape, p.stride()):
            offsets = {o + s * i for o in offsets for i in range(n)}
        size = p.element_size()
        out |= {p.data_ptr() + o * size + b for o in offsets for b in range(size)}
    return out


def contents(storages):
    return [get_bytes(s) for s in storages]


def changed(before, now):
    """Whether bytes were written: a storage that has grown is only longer."""
    return any(b[:len(n)] != n[:len(b)] for b, n in zip(before, now))


def where(t):
    if t.layout != torch.strided or t.is_nested or type(t) not in (torch.Tensor, torch.nn.Parameter):
        return None
    return t.data_ptr(), tuple(t.shape), t.stride(), t.element_size()


def describe(v):
    """An argument as JSON; None if no graph can say it."""
    if isinstance(v, torch.Tensor):
        typed = None
        if v.layout == torch.strided and not v.is_nested and v.dtype in TYPES:
            sizes = ", ".join(map(str, v.shape))
            inside = f"{sizes}, strides=[{', '.join(map(str, v.stride()))}], " if v.dim() else ""
            typed = f"{TYPES[v.dtype]}({inside}requires_grad=0, device=cpu)"
        return {"tensor": typed}
    if v is None:
        return {"none": 1}
    if isinstance(v, (list, tuple)):
        return {"list": [describe(x) for x in v]}
    if isinstance(v, torch.dtype):
        return {"int": CODES[v]} if v in CODES else {"other": str(v)}
    if isinstance(v, torch.memory_format):
        return {"int": FORMATS[v]}
    if isinstance(v, torch.layout):
        return {"int": 0} if v == torch.strided else {"other": "layout"}
    if isinstance(v, torch.device):
        return {"device": str(v)}
    if isinstance(v, bool):
        return {"bool": v}
    if isinstance(v, (int, float, str)):
        return {type(v).__name__: v}
    if isinstance(v, (torch.SymInt, torch.SymBool, torch.SymFloat)):
        return {"int": int(v)}
    return {"other": type(v).__name__}


def full_name(schema):
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


class Recorder:
    """Runs operators and keeps what each call did: {name: [call]}."""

    def __init__(self):
        self.effects = {}  # name -> [JSON]; the name that in_child wants
        self.kinds, self.variants = {}, Variants()

    def run(self, op, args, kwargs):
        # Some have another decomposition in Python, which programs do not run: of dropout in evaluation it gives a copy.
        with torch._C._DisablePythonDispatcher():
            result = self.note(op, args, kwargs or {})
        if not op._schema.name.startswith(calls.LEFT_OUT):
            self.variants.run(self.note, op, args, kwargs or {}, result)
        return result

    def note(self, op, args, kwargs):
        schema = op._schema
        name = full_name(schema)
        values = list(args) + [kwargs[a.name] if a.name in kwargs else a.default_value if a.has_default_value() else None
                               for a in schema.arguments[len(args):]]
        if len(self.effects.get(name, ())) >= 3 * KEPT or sum(t.numel() for v in values for t in flat(v)) > 20000:
            return op(*args, **kwargs)
        inputs = [flat(v) for v in values]
        tensors = [t for ts in inputs for t in ts]
        at = [places(t) for t in tensors]
        overlapping = any(a & b for k, a in enumerate(at) for b in at[:k])
        storages = [[p.untyped_storage() for p in parts(t)] for t in tensors]
        before, was = [contents(s) for s in storages], [where(t) for t in tensors]
        state = torch.get_rng_state()
        result = op(*args, **kwargs)
        drew = not torch.equal(state, torch.get_rng_state())
        now = [contents(s) for s in storages]
        del storages
        several = len(schema.returns) > 1 and isinstance(result, (list, tuple))
        results = list(result) if several else [result] if schema.returns else []
        if len(results) != len(schema.returns):
            return result
        if any(str(f.real_type) == "Tensor" and isinstance(v, (bool, int, float)) for f, v in zip(schema.arguments, values)):
            return result  # Python makes a tensor of the number; a graph cannot say that
        outs = [flat(r) for r in results]
        sides = [(f"r{k}" if isinstance(results[k], torch.Tensor) else f"r{k}*", ts) for k, ts in enumerate(outs)]
        for i, ts in enumerate(inputs):
            sides += [(f"a{i}_{n}", [t]) for n, t in enumerate(ts)]
        spots = {n: [places(t) for t in ts] for n, ts in sides}
        share, same = [], []
        names = [n for n, _ in sides]
        for k, x in enumerate(names):
            for y in names[k + 1:]:
                if x[0] == "a":
                    continue
                if any(p & q for p in spots[x] for q in spots[y]):
                    share.append([x, y])
                tx, ty = dict(sides)[x], dict(sides)[y]
                if any(where(t) is None for t in [*tx, *ty]):
                    same.append([x, y])  # where a sparse tensor lies is not compared
                elif len(tx) == 1 and len(ty) == 1 and (tx[0] is ty[0] or where(tx[0]) == where(ty[0]) is not None):
                    same.append([x, y])
        at_names = [f"a{i}_{n}" for i, ts in enumerate(inputs) for n in range(len(ts))]
        wrote = [x for x, b, n in zip(at_names, before, now) if changed(b, n)]
        moved = [x for x, t, w in zip(at_names, tensors, was) if where(t) != w]
        call = {"args": [describe(v) for v in values], "results": ["list" if isinstance(r, (list, tuple)) else "tensor"
                if isinstance(r, torch.Tensor) else "none" if r is None else "other" for r in results],
                "share": share, "same": same, "wrote": wrote, "moved": moved, "drew": drew, "overlapping": overlapping}
        self.keep(name, call)
        return result

    def keep(self, name, call):
        seen = self.kinds.setdefault(name, {})
        flags = [a for a in call["args"] if "tensor" not in a and "list" not in a]
        kind = json.dumps([call["share"], call["wrote"], call["drew"], call["moved"]])
        if seen.setdefault(kind, 0) < 3 and json.dumps([kind, flags]) not in seen or kind not in seen:
            seen[kind] += 1
            seen[json.dumps([kind, flags])] = 1
            self.effects.setdefault(name, []).append(json.dumps(call))
        else:
            self.effects.setdefault(name, [])


# Asking --------------------------------------------------------------------------------------------------------------


class Text:
    """A graph with the calls of one operator, and what to ask of it."""

    def __init__(self, schema):
        self.schema, self.inputs, self.lines, self.queries, self.count = schema, ["%x : Tensor"], [], [], 0
        self.add("%none : NoneType = prim::Constant()")

    def add(self, line):
        self.lines.append("  " + line)
        self.count += 1
        return self.count - 1

    def constant(self, name, desc, kind, known):
        if "none" in desc:
            return "%none"
        if not known or "other" in desc or "list" in desc and not self.plain(desc):
            self.inputs.append(f"%{name} : {self.spell(kind, desc)}")
        elif "list" in desc:
            value = "[" + ", ".join(self.number(next(iter(e.values()))) for e in desc["list"]) + "]"
            self.add(f"%{name} : {self.spell(kind, desc)} = prim::Constant[value={value}]()")
        else:
            (what, value), = desc.items()
            shown = json.dumps(value) if what in ("str", "device") else self.number(value)
            spelled = {"str": "str", "device": "Device", "int": "int", "float": "float", "bool": "bool"}[what]
            self.add(f"%{name} : {spelled} = prim::Constant[value={shown}]()")
        return f"%{name}"

    @staticmethod
    def number(value):
        return str(int(value)) if isinstance(value, bool) else repr(value) if value == value else "nan"

    @staticmethod
    def plain(desc):
        return all(set(e) <= {"int", "float", "bool"} for e in desc["list"]) and desc["list"] and \
            len({next(iter(e)) for e in desc["list"]}) == 1

    @staticmethod
    def spell(kind, desc):
        kind = kind.replace("number", "Scalar")
        while kind.startswith("Optional["):
            kind = kind[9:-1]
        if kind.startswith("List["):
            inner = kind[5:-1]
            inner = inner[9:-1] + "?" if inner.startswith("Optional[") else inner
            return inner.replace("number", "Scalar") + "[]"
        if "list" in desc and kind in ("int", "float"):
            return kind + "[]"
        return kind

    def call(self, call, tag, known, typed):
        names, tensors = [], {}
        for i, (desc, formal) in enumerate(zip(call["args"], self.schema.arguments)):
            kind = str(formal.real_type)

            def tensor(n, d, i=i):
                name = f"{tag}a{i}_{n}"
                self.add(f"%{name} : {d['tensor'] if typed and d['tensor'] else 'Tensor'} = aten::clone(%x, %none)")
                tensors[f"a{i}_{n}"] = name
                return f"%{name}"

            if "tensor" in desc:
                names.append(tensor(0, desc))
            elif "list" in desc and any("tensor" in e for e in desc["list"]) or "Tensor" in kind and "list" in desc:
                n, elements = 0, []
                for e in desc["list"]:
                    if "tensor" in e:
                        elements.append(tensor(n, e))
                        n += 1
                    else:
                        elements.append("%none")
                optional = "?" if "Optional[Tensor]" in kind else ""
                self.add(f"%{tag}a{i} : Tensor{optional}[] = prim::ListConstruct({', '.join(elements)})")
                names.append(f"%{tag}a{i}")
            else:
                names.append(self.constant(f"{tag}a{i}", desc, kind, known))
        results = []
        for k, r in enumerate(self.schema.returns):
            kind = str(r.real_type)
            spelled = self.spell(kind, {})
            results.append(f"%{tag}r{k} : {spelled}")
            if "Tensor" in kind:
                tensors[f"r{k}" if kind == "Tensor" else f"r{k}*"] = f"{tag}r{k}"
        node = self.add((", ".join(results) + " = " if results else "") + f"{self.schema.name}({', '.join(names)})")
        rnd = f"{tag}rnd"
        self.add(f"%{rnd} : Tensor = aten::rand_like(%x, %none, %none, %none, %none, %none)")
        ask = lambda q, expect, a, b, key: self.queries.append((q, expect, a, b, key))  # noqa: E731
        pair = lambda x, y: [x, y] in call["share"]  # noqa: E731
        keys = list(tensors)
        for x in keys:
            for y in keys:
                if x == y or x[0] == "a":
                    continue
                if y[0] == "r" and keys.index(y) < keys.index(x):
                    continue
                single = "*" not in x + y
                if not call["overlapping"]:
                    ask("may_alias" if single else "may_contain_alias", pair(x, y), f"%{tensors[x]}", f"%{tensors[y]}",
                        (x, y))
                if single and [x, y] not in call["same"]:
                    ask("must_alias", None, f"%{tensors[x]}", f"%{tensors[y]}", (x, y))
        for x in keys:
            if x[0] == "a" and not call["overlapping"]:
                ask("writes_to_alias_of", x in call["wrote"], f"@{node}", f"%{tensors[x]}", (x,))
                ask("has_writers", x in call["wrote"], f"%{tensors[x]}", None, (x,))
        ask("can_move_before", call["drew"], f"%{rnd}", f"@{node}", ())

    def text(self):
        return f"graph({', '.join(self.inputs)}):\n" + "\n".join(self.lines) + "\n  return ()\n"


def answers_of(smelt_opt, text, queries):
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/g.ir", "w") as f:
            f.write(text)
        with open(f"{d}/q.txt", "w") as f:
            f.writelines(f"{q} {a}{' ' + b if b else ''}\n" for q, _, a, b, _ in queries)
        r = subprocess.run([smelt_opt, f"{d}/g.ir", f"--alias-queries={d}/q.txt"], capture_output=True, text=True)
    return r.stdout.splitlines() if r.returncode == 0 else r.stderr.strip()[:300]


def meant_by(text, schema):
    """The operator that PyTorch's parser takes the calls for; where it cannot tell, the one that was called."""
    try:
        found = {n.schema().split("(")[0] for n in torch._C.parse_ir(text).nodes() if n.kind() == schema.name}
    except RuntimeError as e:
        found = set(re.findall(r"for operator (aten::[\w.]+)\(", str(e)))
    return min(found - {"", full_name(schema)}, default=full_name(schema))


def theirs_of(text, queries):
    try:
        graph = torch._C.parse_ir(text)
        db = graph.alias_db()
    except RuntimeError as e:
        return {}, str(e)
    # It gives values names of its own; their order stays.
    names = [n for line in text.splitlines()[1:] for n in re.findall(r"%([\w.]+) : ", line.partition(" = ")[0])]
    values = dict(zip(names, [v for n in graph.nodes() for v in n.outputs()]))
    out = {}
    for k, (q, _, a, b, _) in enumerate(queries):
        if q in ("may_alias", "may_contain_alias"):
            out[k] = db.may_contain_alias(values[a[1:]], values[b[1:]])
        elif q == "has_writers":
            out[k] = db.has_writers(values[a[1:]])
    return out, ""


def check(smelt_opt, name, recorded, totals):
    schema = totals["schemas"][name]
    text = Text(schema)
    for k, call in enumerate(recorded[:KEPT]):
        for mode, known, typed in (("k", True, False), ("u", False, False), ("t", True, True)):
            text.call(call, f"c{k}{mode}", known, typed)
    shown = text.text()
    # To PyTorch's parser a call without its overload may mean another operator (max(%x, %out) is the maximum of two). Only
    # smelt's form of the text can say such a call.
    meant = meant_by(shown, schema)
    if meant != name:
        totals["said with overload"].append(f"{name} (else {meant})")
        # Only the call's own lines, those that give %c0kr0 or nothing: arguments are made by clone.
        shown = "\n".join(line.replace(f"= {schema.name}(", f"= {name}(", 1) if re.match(r"\s*(%c\d+[kut]r\d|= )", line) else line
                          for line in shown.split("\n"))
    said = answers_of(smelt_opt, shown, text.queries)
    if isinstance(said, str) or len(said) != len(text.queries):
        print(f"{name}: smelt-opt: {said if isinstance(said, str) else 'answers missing'}\n{shown}")
        return 1
    theirs, error = theirs_of(shown, text.queries) if meant == name else ({}, "")
    if error:
        totals["not parsed"].append((name, error.strip().splitlines()[0] if error.strip() else ""))
    bad, never = set(), {}
    for k, ((q, happened, a, b, key), answer) in enumerate(zip(text.queries, said)):
        if answer.startswith("error"):
            bad.add(f"{q} {key}: {answer}")
            continue
        yes = answer == "true"
        mode = (a if a[0] == "%" else b or a)[3:4]
        totals["asked"] += 1
        if q == "must_alias":
            if yes:
                bad.add(f"must_alias {key} ({mode}): they were not the same")
        elif q == "can_move_before":
            if happened and yes:
                bad.add("draws random numbers, and a random node may pass it")
            spot = never.setdefault((q, key, mode), [False, False, None])
            spot[0] |= happened
            spot[1] |= not yes
        else:
            if happened and not yes:
                bad.add(f"{q} {key} ({mode}): it happened")
            spot = never.setdefault((q, key, mode), [False, False, True])
            spot[0] |= happened
            spot[1] |= yes
            spot[2] = spot[2] and theirs.get(k, True)
    for line in sorted(bad):
        print(f"{name}: {line}")
    for (q, key, mode), (happened, yes, they) in never.items():
        if yes and not happened:
            totals["never"].setdefault(name, []).append(f"{q} {' '.join(key)} ({mode})" + ("" if they else " TorchScript: no"))
    if bad and "-v" in sys.argv:
        print(shown)
    return bool(bad)


def writes_elements(schema, line):
    """Whether the line is about the elements of a list that the schema says is written."""
    found = re.match(r"(?:has_writers|writes_to_alias_of) a(\d+)_\d+ ", line)
    if not found:
        return False
    a = schema.arguments[int(found[1])]
    return str(a.real_type) == "List[Tensor]" and a.alias_info is not None and a.alias_info.is_write


def option(name, default):
    return next((a.split("=", 1)[1] for a in sys.argv if a.startswith(f"--{name}=")), default)


def record(every, only):
    from torch.testing._internal.common_methods_invocations import op_db
    recorded = {}

    def merge(lines):
        for name, *found in lines:
            recorded.setdefault(name, []).extend(json.loads(f) for f in found)

    start = time.time()
    infos = {f"{i.name} {i.variant_test_name}": i for i in op_db}
    for name, info in sorted(infos.items()):
        if not only or re.search(only, info.name):
            merge(calls.in_child(lambda watch: calls.run_samples(watch, info), Recorder))
    print(f"{time.time() - start:.0f} s: samples: {len(recorded)} operators run", flush=True)
    merge(calls.in_child(calls.run_answers, Recorder))
    merge(calls.in_child(calls.run_direct, Recorder))
    merge(calls.in_child(run_recipes, Recorder))
    print(f"{time.time() - start:.0f} s: recorded answers: {len(recorded)} operators run", flush=True)
    for name, (schema, op) in sorted(every.items()):
        if op is not None and (not only or re.search(only, name)) and len(recorded.get(name, ())) < 3:
            merge(calls.in_child(lambda watch: calls.run_made(watch, op), Recorder))
    print(f"{time.time() - start:.0f} s: made calls: {len(recorded)} operators run", flush=True)
    return recorded


def main():
    torch.set_num_threads(1)
    every = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, base = schema.name.split("::")
        if schema.name.startswith(calls.LEFT_OUT) or "Tensor" not in str(schema):
            continue
        packet = getattr(getattr(torch.ops, namespace), base, None) if namespace in ("aten", ) else None
        every[full_name(schema)] = (schema, getattr(packet, schema.overload_name or "default", None) if packet else None)
    only = option("only", "")
    kept = option("recorded", "")
    if kept and os.path.exists(kept):
        with open(kept) as f:
            recorded = json.load(f)
    else:
        recorded = record(every, only)
        if option("keep", ""):
            with open(option("keep", ""), "w") as f:
                json.dump(recorded, f)
    totals = {"schemas": {n: s for n, (s, _) in every.items()}, "asked": 0, "never": {}, "not parsed": [], "said with overload": [], "declared": 0}
    wrong = 0
    ran = [n for n in sorted(every) if recorded.get(n)]
    for name in ran:
        if not only or re.search(only, name):
            wrong += check(option_path(), name, recorded[name], totals)
    for name, lines in sorted(totals["never"].items()):
        worse = [line for line in lines if "TorchScript: no" in line]
        declared = [line for line in worse if writes_elements(totals["schemas"][name], line)]
        totals["declared"] += len(declared)
        worse = [line for line in worse if line not in declared]
        if worse or "-v" in sys.argv:
            print(f"{name}: never seen: {'; '.join(lines if '-v' in sys.argv else worse)}")
    for name, why in totals["not parsed"]:
        print(f"{name}: TorchScript cannot be asked: {why}")
    print(f"{totals['declared']} times elements of a list that the schema says is written kept their bytes, multiplied by one, say; "
          "to TorchScript only the list is written")
    print(f"named with their overloads, for PyTorch takes the call for another: {', '.join(totals['said with overload'])}")
    missed = [n for n in sorted(every) if not recorded.get(n) and n.startswith("aten::")]
    if option("missed", ""):
        with open(option("missed", ""), "w") as f:
            f.writelines(n + "\n" for n in missed)
    schemas = totals["schemas"]
    devices = sum(bool(calls.DEVICES.search(n)) for n in missed)
    types = sum(not calls.DEVICES.search(n) and bool(re.search(r"Dict|\bt\b|Storage|__torch__|Stream", str(schemas[n]))) for n in missed)
    print(f"not run: {devices} of other devices and backends, {types} of types that Python cannot pass, "
          f"{len(missed) - devices - types} for which no call was found")
    print(f"{len(ran)} operators run, {len(missed)} of aten's not; {totals['asked']} answers, {wrong} operators with wrong ones")
    return 1 if wrong else 0


def option_path():
    return os.path.abspath(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
