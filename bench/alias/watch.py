"""Holds smelt-opt's answers about TorchScript graphs to what happens when they run.

    python3 bench/alias/watch.py bazel-bin/tools/smelt-opt

Scripts little functions, runs their graphs node by node in PyTorch, watches which bytes each value occupies and each node
changes, and asks `smelt-opt --alias-queries` and TorchScript's own `graph.alias_db()` about all of it. Prints what happened
but was not predicted (exit code 1), where smelt is less precise than TorchScript, and the shares of "may" that came true.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import watched_functions  # noqa: E402

SMELT_OPT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "bazel-bin/tools/smelt-opt"


class Stop(Exception):
    pass


def shares(v):
    return isinstance(v, (torch.Tensor, list, dict, tuple, Future, Object)) or hasattr(v, "_c")


class Object:
    """Of a scripted class."""


class Future:
    def __init__(self, value):
        self.value = value


def bytes_of(t):
    if t.numel() == 0 or t.layout != torch.strided:
        return frozenset()
    key = (t.data_ptr(), tuple(t.shape), t.stride(), t.element_size())
    offsets = [0]
    for n, s in zip(t.shape, t.stride()):
        offsets = {o + s * i for o in offsets for i in range(n)}
    size = t.element_size()
    return frozenset(t.data_ptr() + o * size + b for o in offsets for b in range(size)), key


def raw(t):
    return torch.view_as_real(t.detach()).reshape(-1).clone().view(torch.uint8) if t.is_complex() else \
        t.detach().reshape(-1).clone().view(torch.uint8)


def places(t):
    got = bytes_of(t)
    return (got[0], got[1]) if isinstance(got, tuple) else (got, None)


def reach(v, seen=None):
    """v and all that it reaches: tensors and containers."""
    seen = {} if seen is None else seen
    if id(v) in seen or not shares(v):
        return seen
    if not isinstance(v, tuple):
        seen[id(v)] = v
    inside = ()
    if isinstance(v, (list, tuple)):
        inside = v
    elif isinstance(v, dict):
        inside = list(v.values())
    elif isinstance(v, Object):
        inside = list(vars(v).values())
    elif isinstance(v, Future):
        inside = (v.value,)
    for e in inside:
        reach(e, seen)
    return seen


class Run:
    def __init__(self, seen, subgraph=False):
        self.seen = seen
        self.scope = {}  # name -> value
        self.stack = []  # nodes being run, by index

    def meet(self):
        """Notes what shares memory now."""
        items = [(n, v) for n, v in self.scope.items() if shares(v)]
        info = {}
        for n, v in items:
            inside = reach(v)
            tensors = [t for t in inside.values() if isinstance(t, torch.Tensor)]
            info[n] = (v, places(v) if isinstance(v, torch.Tensor) else None,
                       frozenset().union(*(places(t)[0] for t in tensors)) if tensors else frozenset(),
                       {i for i, w in inside.items() if not isinstance(w, torch.Tensor)})
        for (a, (va, pa, ba, ca)), (b, (vb, pb, bb, cb)) in itertools.combinations(info.items(), 2):
            self.seen.together.add((a, b))
            same = va is vb
            if pa is not None and pb is not None:
                if pa[0] & pb[0]:
                    self.seen.alias.add((a, b))
                same = pa[1] == pb[1] and pa[1] is not None
            elif va is vb and not isinstance(va, tuple):
                self.seen.alias.add((a, b))
            if not same:
                self.seen.not_same.add((a, b))
            if ba & bb or ca & cb:
                self.seen.contain.add((a, b))
        for n, (v, p, b, c) in info.items():
            self.seen.scoped.add(n)

    def snapshot(self):
        out = {}
        for n, v in self.scope.items():
            if isinstance(v, torch.Tensor) and v.numel() and v.layout == torch.strided:
                out[n] = (v.detach(), raw(v))
            elif isinstance(v, list):
                out[n] = (v, list(v))
            elif isinstance(v, dict):
                out[n] = (v, dict(v))
        return out

    def changed(self, before, node):
        for n, (now, was) in before.items():
            if isinstance(now, torch.Tensor):
                # As it was: what changes its geometry writes nothing.
                wrote = not torch.equal(raw(now), was)
            else:
                if isinstance(now, list):
                    wrote = len(now) != len(was) or any(x is not y for x, y in zip(now, was))
                else:
                    wrote = list(now) != list(was) or any(now[k] is not was[k] for k in was)
            if wrote:
                self.seen.written.add(n)
                for k in self.stack:
                    self.seen.writes.add((k, n))

    def block(self, block, args):
        mine = []
        for p, a in zip(block.inputs(), args):
            self.scope[p.debugName()] = a
            mine.append(p.debugName())
        self.meet()
        for node in block.nodes():
            self.node(node)
            mine += [o.debugName() for o in node.outputs()]
        out = [self.scope[r.debugName()] for r in block.outputs()]
        for n in mine:
            self.scope.pop(n, None)
        return out

    def node(self, node):
        k = self.seen.index[node_key(node)]
        self.stack.append(k)
        blocks = list(node.blocks())
        before = None if blocks else self.snapshot()
        ins = [self.scope[i.debugName()] for i in node.inputs()]
        outs = self.run(node, node.kind(), ins, blocks)
        if before is not None:
            self.changed(before, node)
        for o, v in zip(node.outputs(), outs):
            self.scope[o.debugName()] = v
            # Its own definition writes the result, too.
            if before is not None:
                for n, (was, _) in before.items():
                    if (k, n) in self.seen.writes and isinstance(v, torch.Tensor) and isinstance(was, torch.Tensor):
                        if places(v)[0] & places(was)[0]:
                            self.seen.written.add(o.debugName())
                            self.seen.writes.add((k, o.debugName()))
                    elif (k, n) in self.seen.writes and was is v:
                        self.seen.written.add(o.debugName())
        self.stack.pop()
        self.meet()

    def run(self, node, kind, ins, blocks):
        n_out = node.outputsSize()
        if kind == "prim::Constant":
            v = node.output().toIValue()
            return [v]
        if kind == "prim::If":
            return self.block(blocks[0 if ins[0] else 1], [])
        if kind == "prim::Loop":
            trips, cond, state = ins[0], ins[1], ins[2:]
            i = 0
            while cond and i < trips:
                out = self.block(blocks[0], [i] + state)
                cond, state = out[0], out[1:]
                i += 1
            return state
        if kind in ("prim::TupleConstruct", "prim::NamedTupleConstruct"):
            return [tuple(ins)]
        if kind == "prim::ListConstruct":
            return [list(ins)]
        if kind == "prim::DictConstruct":
            return [dict(zip(ins[::2], ins[1::2]))]
        if kind in ("prim::TupleUnpack", "prim::ListUnpack"):
            return list(ins[0])
        if kind == "prim::TupleIndex":
            return [ins[0][ins[1]]]
        if kind == "prim::TupleSlice":
            return [ins[0][node.i("beg"):node.i("end")]]
        if kind == "prim::GetAttr":
            return [getattr(ins[0], node.s("name"))]
        if kind == "prim::SetAttr":
            setattr(ins[0], node.s("name"), ins[1])
            return []
        if kind in ("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"):
            return [ins[0]]
        if kind in ("prim::Uninitialized",):
            return [None]
        if kind == "prim::Print":
            return []
        if kind == "prim::RaiseException":
            raise Stop()
        if kind == "prim::fork":
            sub = Run(Seen(node.g("Subgraph")))
            sub.scope = {}
            out = sub.block(node.g("Subgraph"), ins)
            return [Future(out[0] if len(out) == 1 else tuple(out))]
        if kind == "aten::wait":
            return [ins[0].value]
        if kind == "aten::tensor":
            return [torch.tensor(ins[0])]
        if kind == "aten::__is__":
            return [ins[0] is ins[1]]
        if kind == "aten::__isnot__":
            return [ins[0] is not ins[1]]
        if kind == "prim::device":
            return [ins[0].device]
        if kind == "prim::dtype":
            return [ins[0].dtype]
        if kind == "prim::CreateObject":
            return [Object()]
        if kind == "prim::isinstance":
            return [False]
        name = kind.split("::")[1]
        first = ins[0] if ins else None
        if isinstance(first, list) and kind.startswith("aten::"):
            done = self.list_op(name, ins)
            if done is not None:
                return done
        if isinstance(first, dict):
            return self.dict_op(name, ins)
        schema = node.schema()
        if "(no schema)" in schema:
            raise NotImplementedError(kind)
        full = schema[:schema.index("(")]
        overload = full.split(".")[1] if "." in full else ""
        f = torch._C._get_operation_overload(kind, overload)[0]
        args = torch._C.parse_schema(schema).arguments
        plain = [v for a, v in zip(args, ins) if not a.kwarg_only]
        named = {a.name: v for a, v in zip(args, ins) if a.kwarg_only}
        got = f(*plain, **named)
        if n_out == 0:
            return []
        if n_out == 1:
            return [got]
        return list(got)

    def list_op(self, name, ins):
        l = ins[0]
        if name == "append":
            l.append(ins[1])
            return [l]
        if name == "__getitem__":
            return [l[ins[1]]]
        if name == "_set_item":
            l[ins[1]] = ins[2]
            return [l]
        if name == "len":
            return [len(l)]
        if name == "pop":
            return [l.pop(ins[1])]
        if name == "insert":
            l.insert(ins[1], ins[2])
            return []
        if name == "extend":
            l.extend(ins[1])
            return []
        if name == "reverse":
            l.reverse()
            return []
        if name == "clear":
            l.clear()
            return []
        if name in ("copy", "list"):
            return [list(l)]
        if name == "add" and isinstance(ins[1], list):
            return [l + ins[1]]
        if name == "add_":
            l += ins[1]
            return [l]
        if name == "mul":
            return [l * ins[1]]
        if name == "slice":
            return [l[slice(*ins[1:])]]
        if name == "Delete":
            del l[ins[1]]
            return []
        return None

    def dict_op(self, name, ins):
        d = ins[0]
        if name == "__getitem__":
            return [d[ins[1]]]
        if name == "_set_item":
            d[ins[1]] = ins[2]
            return []
        if name == "get":
            return [d.get(ins[1], ins[2] if len(ins) > 2 else None)]
        if name == "keys":
            return [list(d.keys())]
        if name == "values":
            return [list(d.values())]
        if name == "items":
            return [list(d.items())]
        if name == "len":
            return [len(d)]
        if name == "__contains__":
            return [ins[1] in d]
        if name == "pop":
            return [d.pop(ins[1])]
        if name == "setdefault":
            return [d.setdefault(ins[1], ins[2])]
        if name == "update":
            d.update(ins[1])
            return []
        if name == "copy":
            return [dict(d)]
        if name == "clear":
            d.clear()
            return []
        raise NotImplementedError("dict " + name)


def node_key(node):
    """Nodes have no identity in Python: the outputs' names, or the place."""
    outs = [o.debugName() for o in node.outputs()]
    if outs:
        return "%" + outs[0]
    nxt = []
    # Without outputs: by what comes before, counted from the last node with a name.
    n = node
    back = 0
    while True:
        n = n.prev()
        back += 1
        o = [x.debugName() for x in n.outputs()]
        if n.kind() == "prim::Return":
            n = None
        if n is None or o:
            return (o[0] if o else "", back, str(node))


class Seen:
    def __init__(self, graph):
        self.graph = graph
        self.index, self.values, self.nodes = {}, [], []
        self.alias, self.contain, self.not_same, self.together = set(), set(), set(), set()
        self.written, self.writes, self.scoped = set(), set(), set()
        self.number(graph)

    def number(self, block):
        for v in block.inputs():
            self.values.append(v)
        for node in block.nodes():
            self.index[node_key(node)] = len(self.nodes)
            self.nodes.append(node)
            for b in node.blocks():
                self.number(b)
            self.values += list(node.outputs())


def check(name, graph, inputs, totals):
    seen = Seen(graph)
    ran, errors = 0, {}
    for make in inputs:
        try:
            Run(seen).block(graph, make())
            ran += 1
        except (Stop, RuntimeError, IndexError, KeyError, TypeError) as e:
            if not isinstance(e, Stop):
                errors[f"{type(e).__name__}: {str(e)[:200]}"] = errors.get(f"{type(e).__name__}: {str(e)[:200]}", 0) + 1
    if "-v" in sys.argv or ran == 0:
        for e, times in errors.items():
            print(f"{name}: {times} of {len(inputs)} runs ended: {e}")
    mutable = [v.debugName() for v in seen.values if re.search(r"Tensor|\[\]|Dict|Future|__torch__|Any|Float\(|Long\(", str(v.type()))]
    queries = []
    for a, b in itertools.combinations(mutable, 2):
        queries += [("may_alias", a, b), ("may_contain_alias", a, b), ("must_alias", a, b)]
    queries += [("has_writers", a, None) for a in mutable]
    for k, node in enumerate(seen.nodes):
        if node.kind() != "prim::Constant":
            queries += [("writes_to_alias_of", k, a) for a in mutable]
    with tempfile.TemporaryDirectory() as d:
        open(f"{d}/g.ir", "w").write(str(graph))
        lines = []
        for q, a, b in queries:
            lines.append(f"{q} @{a} %{b}" if q == "writes_to_alias_of" else f"{q} %{a}" + (f" %{b}" if b else ""))
        open(f"{d}/q.txt", "w").write("\n".join(lines) + "\n")
        r = subprocess.run([SMELT_OPT, f"{d}/g.ir", f"--alias-queries={d}/q.txt"], capture_output=True, text=True)
    if r.returncode != 0:
        print(f"{name}: smelt-opt exits with {r.returncode}: {r.stderr.strip()[:300]}\n{graph}")
        return 1
    answers = dict(zip(queries, r.stdout.splitlines()))
    db = graph.alias_db()
    by_name = {v.debugName(): v for v in seen.values}
    bad = []
    both = lambda s, a, b: (a, b) in s or (b, a) in s  # noqa: E731
    for (q, a, b), said in answers.items():
        if said.startswith("error"):
            bad.append(f"{q} {a} {b}: {said}")
            continue
        yes = said == "true"
        if q == "may_alias" and both(seen.alias, a, b) and not yes:
            bad.append(f"{a} and {b} shared memory; may_alias says false")
        if q == "may_alias" and yes and both(seen.together, a, b):
            totals["alias"][0] += 1
            totals["alias"][1] += both(seen.alias, a, b)
            if not both(seen.alias, a, b):
                totals["imprecise"].append(f"{name}: may_alias {a} {b}")
        if q == "may_contain_alias":
            if both(seen.contain, a, b) and not yes:
                bad.append(f"{a} and {b} contained shared memory; may_contain_alias says false")
            theirs = db.may_contain_alias(by_name[a], by_name[b])
            if both(seen.together, a, b):
                happened = both(seen.contain, a, b)
                for key, answer in (("contain", yes), ("contain (TorchScript)", theirs)):
                    totals[key][0] += answer
                    totals[key][1] += answer and happened
                if yes and not theirs and not happened:
                    totals["worse"].append(f"{name}: may_contain_alias {a} {b}")
                if happened and not theirs:
                    totals["they miss"][0] += 1
        if q == "must_alias" and yes and both(seen.not_same, a, b):
            bad.append(f"{a} and {b} were not the same; must_alias says true")
        if q == "has_writers":
            if a in seen.written and not yes:
                bad.append(f"{a} was written; has_writers says false")
            theirs = db.has_writers(by_name[a])
            if a in seen.scoped:
                for key, answer in (("writers", yes), ("writers (TorchScript)", theirs)):
                    totals[key][0] += answer
                    totals[key][1] += answer and a in seen.written
                if yes and not theirs and a not in seen.written:
                    totals["worse"].append(f"{name}: has_writers {a}")
                if yes and a not in seen.written:
                    totals["imprecise"].append(f"{name}: has_writers {a}")
        if q == "writes_to_alias_of":
            if (a, b) in seen.writes and not yes:
                bad.append(f"node {a} ({seen.nodes[a].kind()}) wrote {b}; writes_to_alias_of says false")
    for line in bad:
        print(f"{name}: {line}")
    if bad:
        print(graph)
    if ran == 0:
        print(f"{name}: never ran")
    totals["ran"][0] += ran > 0
    return bool(bad)


def main():
    torch.manual_seed(0)
    totals = {k: [0, 0] for k in ("alias", "contain", "contain (TorchScript)", "writers", "writers (TorchScript)", "they miss", "ran")}
    totals["worse"], totals["imprecise"] = [], []
    failed = 0
    for name, graph, inputs in watched_functions.all_graphs():
        try:
            failed += check(name, graph, inputs, totals)
        except NotImplementedError as e:
            print(f"{name}: not run here: {e}")
    for line in totals["worse"]:
        print("less precise than TorchScript:", line)
    if "-v" in sys.argv:
        for line in totals["imprecise"]:
            print("said, never seen:", line)
    for key in ("alias", "contain", "contain (TorchScript)", "writers", "writers (TorchScript)"):
        said, came = totals[key]
        print(f"{key}: {said} said, {came} came true ({came / max(said, 1):.3f})")
    print(f"{totals['ran'][0]} graphs ran; {failed} with wrong answers; TorchScript missed {totals['they miss'][0]} pairs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
