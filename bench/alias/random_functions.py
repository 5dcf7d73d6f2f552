"""Random functions for watch.py, as TorchScript's compiler and tracer print them.

Each is written statement by statement: a statement stays if the function then still runs, eagerly, on all arrangements of
arguments of their own memory.
"""

import contextlib
import copy
import importlib.util
import os
import random
import signal
import sys
import tempfile
import warnings

import torch

from random_templates import CONTAINER_WRITES, EXPRESSIONS, MODULE, PRELUDE, VIEWS, WRITES

ANNOTATION = {"T": "Tensor", "L": "List[Tensor]", "M": "List[List[Tensor]]", "P": "Tuple[Tensor, Tensor]",
              "Q": "Tuple[Tensor, List[Tensor]]", "D": "Dict[str, Tensor]", "O": "Optional[Tensor]",
              "E": "List[Tuple[Tensor, Tensor]]", "J": "Dict[str, List[Tensor]]", "n": "int", "c": "bool"}


@contextlib.contextmanager
def limit(seconds):
    """Ends what takes longer, such as a loop over a list that grows."""
    def stop(*_):
        raise RuntimeError("takes too long")
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Writer:
    def __init__(self, rng, module, method=False):
        self.rng, self.module, self.method = rng, module, method
        self.fresh = 0
        self.args = [(f"x{i}", "T") for i in range(rng.randint(1, 3))]
        for kind in "LDOPQMEJ":
            if rng.random() < {"L": .3, "D": .15, "O": .12, "P": .12, "Q": .1, "M": .1, "E": .08, "J": .08}[kind]:
                self.args.append((kind.lower() + "0", kind))
        self.args += [("n", "n"), ("c", "c")]
        self.result = rng.choice(["T", "L", "TL", "P", "TT", "D", "T"])
        self.depth = 0
        self.shape = rng.choice([(4, 4), (4, 4), (4, 4), (2, 4, 4), (4,), (2, 2, 3), (4, 1), (1, 4), (2, 2, 2, 2)])
        self.heat = rng.random()  # how much is written

    def annotation(self):
        if len(self.result) == 1:
            return ANNOTATION[self.result]
        return "Tuple[" + ", ".join(ANNOTATION[k] for k in self.result) + "]"

    def source(self, lines, scope):
        head = ", ".join(f"{n}: {ANNOTATION[k]}" for n, k in self.args)
        if self.method:
            head = "self, " + head
        body = lines + [f"    return {self.give(scope)}"]
        return f"def f({head}) -> {self.annotation()}:\n" + "\n".join(body) + "\n"

    def give(self, scope, rng=None):
        rng = random.Random(7) if rng is None else rng
        parts = []
        for k in self.result:
            have = [n for n, t in scope if t == k]
            if k == "T":
                parts.append(have[-1] if have else "x0")
            elif k == "L":
                parts.append(have[-1] if have else "[x0]")
            elif k == "P":
                parts.append(have[-1] if have else "(x0, x0)")
            else:
                parts.append(have[-1] if have else '{"a": x0}')
        return ", ".join(parts)

    def fill(self, template, scope):
        rng = self.rng
        out, i = "", 0
        while i < len(template):
            if template.startswith("{{", i) or template.startswith("}}", i):
                out += template[i]
                i += 2
            elif template[i] == "{" and template[i + 2:i + 3] == "}":
                k = template[i + 1]
                i += 3
                if k == "I":
                    ints = [n for n, t in scope if t == "n"]
                    out += rng.choice(ints + ["0", "1"]) if rng.random() < .6 else str(rng.choice([0, 1, -1]))
                elif k == "K":
                    out += str(rng.choice([0, 1, 1, 2, -1]))
                elif k == "d":
                    out += str(rng.choice([0, 0, 1, -1]))
                elif k == "C":
                    out += rng.choice([n for n, t in scope if t == "c"] + ["True", "False"])
                else:
                    have = [n for n, t in scope if t == k]
                    if self.method and k == "T" and rng.random() < .25:
                        have = ["self.buf", "self.w", "self.sub.state"]
                    if not have:
                        return None
                    # The latest values are the most interesting ones.
                    out += rng.choice(have[-4:]) if rng.random() < .6 else rng.choice(have)
            else:
                out += template[i]
                i += 1
        return out

    def simple(self, scope, pad):
        """A statement and what it defines."""
        rng = self.rng
        r = rng.random()
        if self.method and rng.random() < .08:
            t = rng.choice(["self.buf = {T}", "self.buf.add_(1)", "self.sub.keep({T})", "self.buf = {T}.detach()",
                            "self.sub.state.mul_(2)", "self.buf[0].copy_(self.w[0])"])
            s = self.fill(t, scope)
            return (pad + s, None) if s else None
        if r < .2 + .25 * self.heat:
            pool = WRITES if rng.random() < .62 else CONTAINER_WRITES
            s = self.fill(rng.choice(pool), scope)
            return (pad + s, None) if s else None
        kind = rng.choices("TLMPQDOBEJiXW", [60, 14, 4, 6, 4, 6, 3, 4, 3, 3, 3, 3, 3])[0]
        pool = VIEWS if kind == "T" and rng.random() < .75 else EXPRESSIONS[kind]
        s = self.fill(rng.choice(pool), scope)
        if s is None:
            return None
        old = [n for n, t in scope if t == kind and (n, t) not in self.args[-2:]]
        if old and rng.random() < (.3 if self.depth else .12):
            name, new = rng.choice(old), None
            return pad + f"{name} = {s}", None
        self.fresh += 1
        name = f"{kind.lower()}{self.fresh + 1}"
        if kind == "O":
            return pad + f"{name}: Optional[Tensor] = {s}", (name, kind)
        return pad + f"{name} = {s}", (name, kind)

    def works(self, lines, scope):
        with limit(0.3):
            return self.runs(lines, scope)

    def runs(self, lines, scope):
        source = self.source(lines, scope)
        spaces = {}
        try:
            if self.method:
                return True if not self.try_method(source) else False
            exec(compile(source, "f", "exec"), dict(self.module.__dict__, print=lambda *a: None), spaces)
            for n, c in ((0, False), (1, True), (2, False), (3, True)):
                spaces["f"](*arguments(self.args, "apart", n, c, self.shape))
            return True
        except Exception:
            return False

    def try_method(self, source):
        spaces = {}
        exec(compile(source, "f", "exec"), dict(self.module.__dict__, print=lambda *a: None), spaces)
        for n, c in ((0, False), (2, True)):
            m = self.module.Base()
            try:
                spaces["f"](m, *arguments(self.args, "apart", n, c, self.shape))
            except Exception as e:
                return e
        return None

    def block(self, head, scope, indent, budget, close, loop=False):
        """Statements of a block; `head`: the lines so far, `close`: what must follow for it to be whole."""
        lines = []
        scope = list(scope)
        pad = "    " * indent
        made = 0
        tries = 0
        while made < budget and tries < budget * 4:
            tries += 1
            r = self.rng.random()
            if r < .14 and indent < 4:
                got = self.compound(head + lines, scope, indent, close)
                if got:
                    lines += got
                    made += 1
                continue
            if r < .18 and loop and indent > 2:
                jump = self.rng.choice(["break", "continue", "break"])
                if self.rng.random() < .5:
                    lines += [f"{pad}if {self.condition(scope)}:", f"{pad}    {jump}"]
                continue
            if r < .2 and indent > 1:
                cond = self.condition(scope)
                new = [f"{pad}if {cond}:", f"{pad}    return {self.give(scope)}"]
                if self.works(head + lines + new + close, self.args):
                    lines += new
                continue
            got = self.simple(scope, pad)
            if got is None:
                continue
            line, defined = got
            if self.works(head + lines + [line] + close, self.args):
                lines.append(line)
                made += 1
                if defined:
                    scope.append(defined)
        if not lines:
            lines = [pad + "pass"]
        return lines, scope

    def condition(self, scope):
        rng = self.rng
        ints = [n for n, t in scope if t == "n"]
        options = ["c", "not c", f"{rng.choice(ints)} == {rng.choice([0, 1, 2])}",
                   f"{rng.choice(ints)} > {rng.choice([0, 1])}"]
        lists = [n for n, t in scope if t == "L"]
        if lists:
            options.append(f"len({rng.choice(lists)}) > 1")
        optional = [n for n, t in scope if t == "O"]
        if optional:
            o = rng.choice(optional)
            options += [f"{o} is not None"] * 3
        return rng.choice(options)

    def compound(self, head, scope, indent, close):
        rng = self.rng
        pad = "    " * indent
        self.depth += 1
        r = rng.random()
        self.fresh += 1
        v = f"k{self.fresh}"
        inner = list(scope)
        tail = []
        if r < .35:
            cond = self.condition(scope)
            first = f"{pad}if {cond}:"
            if " is not None" in cond:
                inner.append((cond.split()[0], "T"))
        else:
            lists = [n for n, t in scope if t == "L"]
            dicts = [n for n, t in scope if t == "D"]
            tensors = [n for n, t in scope if t == "T"]
            if r < .6 or not lists:
                first = f"{pad}for {v} in range({rng.choice(['n', 'n', '2', 'n + 1'])}):"
                inner.append((v, "n"))
            elif r < .7:
                first = f"{pad}for {v} in {rng.choice(lists)}:"
                inner.append((v, "T"))
                if rng.random() < .4:
                    first = f"{pad}for {v}i, {v} in enumerate({rng.choice(lists)}):"
                    inner.append((v + "i", "n"))
            elif r < .76 and dicts:
                d = rng.choice(dicts)
                first = rng.choice([f"{pad}for {v} in {d}.values():", f"{pad}for {v}s, {v} in {d}.items():"])
                inner.append((v, "T"))
            elif r < .84:
                first = f"{pad}for {v} in {rng.choice(tensors)}:"
                inner.append((v, "T"))
            elif r < .92:
                first = f"{pad}for {v}, {v}b in zip({rng.choice(lists)}, {rng.choice(lists)}):"
                inner += [(v, "T"), (v + "b", "T")]
            else:
                head = head + [f"{pad}{v} = 0"]
                first = f"{pad}while {v} < n:"
                tail = [f"{pad}    {v} += 1"]
                inner.append((v, "n"))
        is_if = r < .35
        start = head + [first]
        extra = [f"{pad}{v} = 0"] if tail else []
        body, _ = self.block(start, inner, indent + 1, rng.randint(1, 5), tail + close, loop=not is_if)
        lines = extra + [first] + body + tail
        if is_if and rng.random() < .6:
            cut = head + [first] + body + [f"{pad}else:"]
            other, _ = self.block(cut, scope, indent + 1, rng.randint(1, 4), close)
            lines += [f"{pad}else:"] + other
        self.depth -= 1
        full = (head[:-1] if extra else head) + lines + close
        return lines if self.works(full, self.args) else None

    def write(self, size):
        lines, scope = self.block([], self.args, 1, size, [])
        while True:
            source = self.source(lines, scope)
            if self.works(lines, scope):
                return source
            scope = scope[:-1]
            if len(scope) < len(self.args):
                return None


def dense(shape):
    out, step = [], 1
    for n in reversed(shape):
        out.insert(0, step)
        step *= n
    return out


def arguments(args, kind, n, c, shape=(4, 4)):
    """Fresh arguments; `kind`: how they lie in memory."""
    base = torch.randn(128)
    one = torch.randn(*shape)
    strides = dense(shape)
    count = [0]

    def tensor(whole=False):
        count[0] += 1
        k = count[0]
        if kind == "apart":
            return torch.randn(*shape)
        if kind == "same":
            return one
        if kind == "shifted":
            return base.as_strided(shape, strides, 3 * k)
        if kind == "turned":
            return one.transpose(0, -1) if k % 2 else one
        if kind == "expanded":
            return base[k:k + shape[-1]].expand(*shape) if not whole else base.as_strided(shape, strides, 2 * k)
        if kind == "stretched":
            return base[k:k + shape[-1]].expand(*shape)
        if kind == "sliding":
            return base.as_strided(shape, [1] * len(shape), k)
        if kind == "halves":
            return base.as_strided(shape, [2 * s for s in strides], k % 4)
        if kind == "types":
            return (base if k % 2 else base.view(torch.int32)).as_strided(shape, strides, 5 * k)
        if kind == "complex":
            return (torch.view_as_complex(base.view(-1, 2)) if k % 2 else base).as_strided(shape, strides, 2 * k)
        if kind == "doubles":
            return base.view(torch.float64).as_strided(shape, strides, k)
        return base.as_strided(shape, [1] + [3 * s for s in strides[1:]], k)

    def make(k):
        if k == "T":
            return tensor()
        if k == "L":
            return [tensor(True) for _ in range(3)]
        if k == "D":
            return {x: tensor(True) for x in "abc"}
        if k == "O":
            return None if n == 0 and c else tensor(True)
        if k == "P":
            return (tensor(True), tensor(True))
        if k == "Q":
            return (tensor(True), [tensor(True), tensor(True)])
        if k == "M":
            l = [tensor(True), tensor(True)]
            return [l, l] if kind == "same" else [l, [tensor(True)]]
        if k == "E":
            return [(tensor(True), tensor(True)), (tensor(True), tensor(True))]
        if k == "J":
            l = [tensor(True), tensor(True)]
            return {"a": l, "b": l} if kind == "same" else {"a": l, "b": [tensor(True)]}
        return n if k == "n" else c

    out = []
    for i, (_, k) in enumerate(args):
        v = make(k)
        if kind == "same":
            for (_, other), w in zip(args, out):
                if other == k and k in "LDM":
                    v = w
            if k == "L":
                for (_, other), w in zip(args, out):
                    if other == "M":
                        v = w[0]
        out.append(v)
    return out


KINDS = ["apart", "apart", "same", "shifted", "turned", "expanded", "halves", "types", "skewed", "stretched",
         "sliding", "complex", "doubles"]


def inputs_for(args, shape, first=()):
    def make(kind, n, c):
        return lambda: [f() for f in first] + arguments(args, kind, n, c, shape)
    out = []
    for i, kind in enumerate(KINDS):
        out.append(make(kind, (2, 0, 3, 1)[i % 4], i % 2 == 0))
        out.append(make(kind, (0, 1, 2, 3)[(i + 1) % 4], i % 2 == 1))
    return out


def load(source, folder, name):
    path = os.path.join(folder, name + ".py")
    with open(path, "w") as f:
        f.write(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


METHODS = [("Box", x) for x in ("__init__", "put", "get", "swap", "bump")] + [("Wrap", x) for x in ("__init__", "keep")]

PASSES = ["inline", "inline", "inline", "plain", "plain", "cp", "cp immutable", "cse", "peephole", "unroll", "decompose",
          "functional", "mutation"]


def apply(graph, how):
    c = torch._C
    g = graph.copy()
    if how == "plain":
        return g
    c._jit_pass_inline(g)
    for fork in g.findAllNodes("prim::fork"):
        c._jit_pass_inline(fork.g("Subgraph"))
    if how == "cp":
        c._jit_pass_constant_propagation(g)
    if how == "cse":
        c._jit_pass_cse(g)
        c._jit_pass_dce(g)
    if how == "peephole":
        c._jit_pass_peephole(g, True)
        c._jit_pass_constant_pooling(g)
    if how == "unroll":
        c._jit_pass_loop_unrolling(g)
    if how == "decompose":
        c._jit_pass_decompose_ops(g)
        c._jit_pass_lint(g)
    if how == "cp immutable":
        c._jit_pass_constant_propagation_immutable_types(g)
    if how == "functional":
        c._jit_pass_create_functional_graphs(g)
    if how == "mutation":
        c._jit_pass_remove_mutation(g)
    return g


def all_graphs(count, seed):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    refused = {}
    with tempfile.TemporaryDirectory() as folder:
        helpers = load(PRELUDE + MODULE, folder, "random_helpers")
        functions = {}
        for name in ("first_row", "push", "bump", "pick", "both", "nest", "put_in", "last", "twice", "share"):
            functions[name] = torch.jit.script(getattr(helpers, name)).inlined_graph
        for i in range(count):
            rng = random.Random(seed + i)
            torch.manual_seed(seed + i)
            method = rng.random() < .12
            w = Writer(rng, helpers, method)
            source = w.write(rng.choice([3, 5, 8, 8, 12, 12, 18, 18, 25, 35]))
            how = rng.choice(PASSES)
            traced = not method and rng.random() < .2
            typed = not method and not traced and rng.random() < .25
            name = f"{seed + i} {'method ' if method else ''}{'traced' if traced else how}"
            if source is None:
                continue
            try:
                if method:
                    body = "".join("    " + line + "\n" for line in source.replace("def f(", "def forward(").splitlines())
                    head = "\n\nclass M(Base):\n    def __init__(self):\n        super().__init__()\n\n"
                    m = load(PRELUDE + MODULE + head + body, folder, f"random_{seed + i}")
                    scripted = torch.jit.script(m.M())
                    graph = apply(scripted.graph, "inline" if how == "plain" else how)
                    inputs = inputs_for(w.args, w.shape, [lambda: copy.deepcopy(scripted)])
                else:
                    m = load(PRELUDE + "\n\n" + source, folder, f"random_{seed + i}")
                    if traced:
                        x = [a for a in arguments(w.args, "apart", 2, True, w.shape)]
                        keep = [k for k, (_, t) in enumerate(w.args) if t in "TLP"]
                        fixed = {k: a for k, a in enumerate(x) if k not in keep}

                        def g(*tensors):
                            whole, it = [], iter(tensors)
                            for k in range(len(x)):
                                whole.append(copy.deepcopy(fixed[k]) if k in fixed else next(it))
                            return m.f(*whole)
                        graph = torch.jit.trace(g, tuple(copy.deepcopy(x[k]) for k in keep), check_trace=False).graph
                        args = [w.args[k] for k in keep]
                        # Types give strides: the arguments have them, and may only overlap each other.
                        inputs = [(lambda kind: lambda: arguments(args, kind, 2, True, w.shape))(kind)
                                  for kind in ("apart", "same", "shifted")]
                    else:
                        graph = apply(torch.jit.script(m.f).graph, how)
                        inputs = inputs_for(w.args, w.shape)
                        if typed:
                            name += " typed"
                            example = tuple(arguments(w.args, "apart", 2, True, w.shape))
                            torch._C._jit_pass_complete_shape_analysis(graph, example, False)
                            inputs = [(lambda kind, n: lambda: arguments(w.args, kind, n, n % 2 == 0, w.shape))(kind, n)
                                      for kind in ("apart", "same", "shifted") for n in (0, 1, 2, 3)]
            except Exception as e:
                what = type(e).__name__ + ": " + " ".join(str(e).split())[:100]
                refused[what] = refused.get(what, 0) + 1
                continue
            here = dict(functions)
            cu = torch.jit._state._python_cu
            for cls, method_name in METHODS:
                q = f"__torch__.random_{seed + i}.{cls}"
                f = cu.find_function(f"{q}.{method_name}")
                if f is not None:
                    here[(q, method_name)] = f.inlined_graph
            yield name, graph, inputs, here
    total = sum(refused.values())
    if total:
        print(f"{total} were not compiled, such as:")
        for what in sorted(refused, key=refused.get)[-5:]:
            print(f"  {refused[what]}: {what}")
