"""Runs a TorchScript graph node by node in PyTorch and notes what its values and nodes do to memory."""

import torch

METADATA = set("""aten::size aten::dim aten::len aten::numel aten::stride aten::is_floating_point aten::is_complex
aten::zeros_like aten::ones_like aten::empty_like aten::full_like aten::rand_like aten::randn_like aten::new_zeros
aten::new_ones aten::new_empty aten::new_full aten::is_contiguous aten::storage_offset aten::element_size aten::is_conj
aten::is_neg aten::get_device aten::is_same_size prim::dtype prim::device prim::layout prim::shape prim::is_cuda
prim::requires_grad aten::__is__ aten::__isnot__ prim::ListConstruct prim::TupleConstruct prim::DictConstruct
prim::TupleUnpack prim::ListUnpack prim::TupleIndex prim::TupleSlice prim::GetAttr prim::SetAttr prim::Constant
prim::unchecked_cast prim::unchecked_unwrap_optional aten::_unwrap_optional prim::CreateObject prim::Uninitialized
prim::NamedTupleConstruct aten::result_type aten::is_signed prim::isinstance prim::type""".split())
GEOMETRY = set("""aten::t_ aten::transpose_ aten::swapaxes_ aten::swapdims_ aten::squeeze_ aten::unsqueeze_
aten::as_strided_ aten::resize_ aten::resize_as_ aten::set_ aten::detach_ aten::requires_grad_""".split())
HANDS_ON = {"aten::append", "aten::insert", "aten::_set_item", "aten::setdefault", "aten::get", "aten::pop",
            "aten::_unwrap_optional"}
# They copy tensors that are conjugated or negated lazily (docs/alias_database.md, known limits).
HIDDEN_VIEWS = {"aten::unsafe_split", "aten::unsafe_split_with_sizes", "aten::unsafe_chunk", "aten::_unsafe_view"}
WORLD = {"prim::Print", "prim::RaiseException", "aten::warn"}


OF_CONTAINERS = set("""append __getitem__ _set_item len pop insert extend reverse clear copy list add add_ mul slice Delete get
keys values items __contains__ popitem setdefault update""".split())


class Stop(Exception):
    pass


class Object:
    """Of a scripted class."""


class Future:
    def __init__(self, value):
        self.value = value


def shares(v):
    return isinstance(v, (torch.Tensor, list, dict, tuple, Future, Object)) or hasattr(v, "_c")


CACHE = {}


def key_of(t):
    return (t.data_ptr(), tuple(t.shape), t.stride(), t.element_size()) if t.layout == torch.strided else (id(t),)


def geometry(t):
    """What sizes, strides and storage a handle has; where the storage lies may change with its size."""
    if t.layout != torch.strided:
        return None
    return tuple(t.shape), t.stride(), t.storage_offset(), t.untyped_storage()._cdata


def places(t):
    """The addresses of a tensor's bytes."""
    key = key_of(t)
    got = CACHE.get(key)
    if got is None:
        if len(key) == 1 or t.numel() == 0:
            got = frozenset()
        else:
            offsets = {0}
            for n, s in zip(t.shape, t.stride()):
                offsets = {o + s * i for o in offsets for i in range(n)}
            size = t.element_size()
            got = frozenset(t.data_ptr() + o * size + b for o in offsets for b in range(size))
        if len(CACHE) > 100000:
            CACHE.clear()
        CACHE[key] = got
    return got


def known(v):
    """A constant's value."""
    return v.toIValue() if v.node().kind() == "prim::Constant" else None


def raw(t):
    t = t.detach()
    if t.is_conj():
        t = t.conj()
    if t.is_neg():
        t = torch._neg_view(t)
    t = torch.view_as_real(t) if t.is_complex() else t
    # A clone keeps the stride of a single element.
    return torch.empty(t.numel(), dtype=t.dtype).copy_(t.reshape(-1)).view(torch.uint8)


def inside(v):
    if isinstance(v, (list, tuple)):
        return v
    if isinstance(v, dict):
        return list(v.values())
    if isinstance(v, Object):
        return list(vars(v).values())
    if isinstance(v, Future):
        return (v.value,)
    return ()


def reach(v, seen=None):
    """v and all that it reaches: tensors and containers, tuples apart, which have no identity."""
    seen = {} if seen is None else seen
    if id(v) in seen or not shares(v):
        return seen
    if not isinstance(v, tuple):
        seen[id(v)] = v
    for e in inside(v):
        reach(e, seen)
    return seen


def state(v):
    """All that decides what v shares with others."""
    if isinstance(v, torch.Tensor):
        return key_of(v)
    return (id(v),) + tuple(state(e) for e in inside(v) if shares(e)) if not isinstance(v, tuple) else \
        ("t",) + tuple(state(e) for e in v if shares(e))


class Node:
    def __init__(self, k, node):
        self.k, self.kind = k, node.kind()
        self.ins = [i.debugName() for i in node.inputs()]
        self.outs = [o.debugName() for o in node.outputs()]
        self.blocks, self.node = [], node
        self.call = None
        self.args = None
        self.parent, self.place = None, 0


class Block:
    def __init__(self, block):
        self.ins = [v.debugName() for v in block.inputs()]
        self.outs = [v.debugName() for v in block.outputs()]
        self.nodes = []


class Program:
    """A graph with its nodes numbered in pre-order, and what was seen in its runs."""

    def __init__(self, graph):
        self.graph = graph
        self.nodes, self.values = [], []
        self.top = self.read(graph)
        self.alias, self.contain, self.not_same, self.together = set(), set(), set(), set()
        self.written, self.writes, self.scoped = set(), set(), set()
        self.ever_written, self.caller, self.lived = set(), set(), set()
        self.types = {}  # name -> sizes and strides, where the type says them
        for v in self.values:
            sizes = v.type().sizes() if v.type().kind() == "TensorType" else None
            if sizes is not None and all(n is not None for n in sizes):
                self.types[v.debugName()] = (tuple(sizes), tuple(v.type().strides() or ()))
        self.depends = set()  # (earlier node, later node) of one block that must stay in order

    def read(self, block):
        out = Block(block)
        self.values += list(block.inputs())
        for node in block.nodes():
            n = Node(len(self.nodes), node)
            n.parent, n.place = out, len(out.nodes)
            self.nodes.append(n)
            out.nodes.append(n)
            n.blocks = [self.read(b) for b in node.blocks()]
            self.values += list(node.outputs())
        return out


class Run:
    """One run. `functions`: by qualified name, the graphs of what is called. `free`: branches and loops go by these random
    numbers, whatever their conditions say: what an analysis that does not look at conditions must expect."""

    def __init__(self, program, functions=None, keep=True, free=None):
        self.p = program
        self.free = free
        self.functions = functions or {}
        self.scope = {}
        self.states = {}   # name -> state when pairs were last looked at
        self.info = {}
        self.stack = []
        self.kept = {}     # name -> tensors and containers that ever were its value, while `keep`
        self.keep, self.alive = keep, []
        self.frames = []   # of the blocks that are being run: a list of (node, reads, writes)
        self.inner = {}    # node -> what has been read and written inside

    def start(self, args):
        self.outputs = self.block(self.p.top, list(args))
        if self.keep:
            self.note_caller(args)
        return self.outputs

    def note_caller(self, args):
        roots = {}
        for v in list(args) + list(self.outputs):
            reach(v, roots)
        bytes_, ids = set(), set()
        for r in list(roots.values()) + list(self.first_reach.values()):
            if isinstance(r, torch.Tensor):
                bytes_ |= places(r)
            ids.add(id(r))
        for n, vs in self.kept.items():
            for v in vs.values():
                for r in reach(v).values():
                    if id(r) in ids or isinstance(r, torch.Tensor) and places(r) & bytes_:
                        self.p.caller.add(n)

    def meet(self):
        """Notes what shares memory now: only pairs of which one has changed."""
        p = self.p
        fresh = []
        for n, v in self.scope.items():
            if not shares(v):
                continue
            s = state(v)
            if self.states.get(n) == s and n in self.info and self.info[n][0] is v:
                continue
            self.states[n] = s
            r = reach(v)
            tensors = [t for t in r.values() if isinstance(t, torch.Tensor)]
            self.info[n] = (v, key_of(v) if isinstance(v, torch.Tensor) else None,
                            places(v) if isinstance(v, torch.Tensor) else None,
                            frozenset().union(*(places(t) for t in tensors)) if tensors else frozenset(),
                            {i for i, w in r.items() if not isinstance(w, torch.Tensor)})
            fresh.append(n)
            p.scoped.add(n)
            if self.keep:
                self.kept.setdefault(n, {})[s] = v
                self.alive.append(v)  # nothing takes its address
        for a in fresh:
            va, ka, pa, ba, ca = self.info[a]
            for b, (vb, kb, pb, bb, cb) in self.info.items():
                if a == b:
                    continue
                pair = (a, b) if a < b else (b, a)
                p.together.add(pair)
                same = va is vb
                if pa is not None and pb is not None:
                    if not pa.isdisjoint(pb):
                        p.alias.add(pair)
                    same = ka == kb
                elif va is vb and not isinstance(va, tuple):
                    p.alias.add(pair)
                if not same:
                    p.not_same.add(pair)
                if not ba.isdisjoint(bb) or not ca.isdisjoint(cb):
                    p.contain.add(pair)

    def snapshot(self):
        out = {}
        everything = dict(self.scope)
        if self.keep:
            for n, vs in self.kept.items():
                for s, v in vs.items():
                    everything[(n, s)] = v
        done = {}
        for n, v in everything.items():
            if isinstance(v, torch.Tensor) and v.numel() and v.layout == torch.strided:
                k = (key_of(v), v.dtype, v.is_conj(), v.is_neg())
                if k not in done:
                    d = v.detach()
                    done[k] = (d, raw(d))
                out[n] = done[k]
            elif isinstance(v, list):
                out[n] = (v, list(v))
            elif isinstance(v, dict):
                out[n] = (v, dict(v))
            elif isinstance(v, Object):
                out[n] = (v, dict(vars(v)))
        return out

    def changed(self, before):
        """Notes and gives what is not as it was."""
        out, answers = set(), {}
        for n, (now, was) in before.items():
            if id(was) not in answers:
                if isinstance(now, torch.Tensor):
                    # As it was: what changes its geometry writes nothing.
                    answers[id(was)] = not torch.equal(raw(now), was)
                elif isinstance(now, list):
                    answers[id(was)] = len(now) != len(was) or any(x is not y for x, y in zip(now, was))
                else:
                    now_d = vars(now) if isinstance(now, Object) else now
                    answers[id(was)] = list(now_d) != list(was) or any(now_d[k] is not was[k] for k in was)
            if not answers[id(was)]:
                continue
            if isinstance(n, tuple):
                self.p.ever_written.add(n[0])
                continue
            out.add(n)
            self.p.written.add(n)
            for k in self.stack:
                self.p.writes.add((k, n))
        return out

    def block(self, block, args):
        mine = []
        for n, a in zip(block.ins, args):
            self.scope[n] = a
            mine.append(n)
        if block is self.p.top:
            self.first_reach = {}
            for a in args:
                reach(a, self.first_reach)
        self.meet()
        self.frames.append([])
        for node in block.nodes:
            self.node(node)
            mine += node.outs
        self.order(self.frames.pop())
        out = [self.scope[r] for r in block.outs]
        for n in mine:
            self.scope.pop(n, None)
            self.info.pop(n, None)
            self.states.pop(n, None)
        return out

    def order(self, done):
        """Which of the nodes of a block, as they ran, had to stay in order."""
        for j, (b, rb, wb) in enumerate(done):
            for a, ra, wa in done[:j]:
                if (a.k, b.k) in self.p.depends:
                    continue
                if not wa.isdisjoint(rb) or not wa.isdisjoint(wb) or not ra.isdisjoint(wb):
                    self.p.depends.add((a.k, b.k))

    def node(self, node):
        self.stack.append(node.k)
        before = None if node.blocks else self.snapshot()
        ins = [self.scope[i] for i in node.ins]
        reads, writes = set(), set()
        if not node.blocks:
            self.accesses(node, ins, reads, writes)
        if node.kind in HIDDEN_VIEWS and (ins[0].is_conj() or ins[0].is_neg()):
            raise Stop()
        shapes = [(v, geometry(v)) for v in ins if isinstance(v, torch.Tensor)]
        outs = self.run(node, node.kind, ins)
        # A result of the size that `out` has already changes no geometry.
        writes |= {("g", id(v)) for v, was in shapes if geometry(v) != was}
        if before is not None:
            hit = self.changed(before)
            for n in hit:
                v = before[n][0]
                if not isinstance(v, torch.Tensor):
                    writes.add(("c", id(v)))
            for n in sorted(hit, key=lambda n: len(places(before[n][0])) if isinstance(before[n][0], torch.Tensor) else 0):
                v = before[n][0]
                # The base of what was written has changed too; it is the smallest that counts.
                if isinstance(v, torch.Tensor) and writes.isdisjoint(places(v)):
                    writes |= places(v)
            for o, v in zip(node.outs, outs):
                # Its own definition writes the result, too.
                for n in hit:
                    was = before[n][0]
                    if was is v or isinstance(v, torch.Tensor) and isinstance(was, torch.Tensor) and \
                            not places(v).isdisjoint(places(was)):
                        self.p.written.add(o)
                        if isinstance(v, torch.Tensor):
                            self.p.writes.add((node.k, o))
            if node.kind not in METADATA and node.kind not in GEOMETRY and not (
                    node.kind.split("::")[1] in OF_CONTAINERS and isinstance(ins[0], (list, dict))):
                # Only views: nothing was read.
                tensors = [t for o in outs for t in reach(o).values() if isinstance(t, torch.Tensor)]
                # The others only say how the result is to look.
                looked = ins[:1] if node.kind in ("aten::to", "aten::type_as") else ins
                bases = [t for i in looked for t in reach(i).values() if isinstance(t, torch.Tensor)]
                storages = {t.untyped_storage().data_ptr() for t in bases if t.layout == torch.strided and t.numel()}
                view = tensors and all(t.untyped_storage().data_ptr() in storages for t in tensors) and \
                    not node.kind.startswith("prim::Call")
                if not view or writes:
                    for t in bases:
                        reads |= places(t)
        for o, v in zip(node.outs, outs):
            if isinstance(v, torch.Tensor) and v.numel() > 20000:
                raise Stop()
            declared = self.p.types.get(o)
            if declared is not None and isinstance(v, torch.Tensor) and \
                    (tuple(v.shape) != declared[0] or v.stride() != declared[1] and v.numel() > 1 and declared[1]):
                raise NotImplementedError(f"%{o} is not of its type")
            self.scope[o] = v
        self.stack.pop()
        self.meet()
        if node.blocks:
            r, w = self.inner.pop(node.k, ((), ()))
            reads.update(r)
            writes.update(w)
        self.frames[-1].append((node, reads, writes))
        # Effects of the nodes inside are effects of the node around them.
        if self.stack:
            r, w = self.inner.setdefault(self.stack[-1], (set(), set()))
            r |= reads
            w |= writes

    def accesses(self, node, ins, reads, writes):
        """What the schema says, and containers."""
        kind = node.kind
        if not kind.startswith("prim::") and kind not in HANDS_ON:
            for v in ins:
                if isinstance(v, torch.Tensor):
                    reads.add(("g", id(v)))
        if kind in GEOMETRY:
            writes.add(("g", id(ins[0])))
        if kind in GEOMETRY:
            return
        if kind in WORLD:
            writes.add("world")
        schema = node.node.schema() if kind.startswith("aten::") else "(no schema)"
        if "(no schema)" not in schema:
            if "Generator" in schema or kind in ("aten::rand", "aten::rand_like") or \
                    kind == "aten::dropout" and ins[2] and ins[1]:
                writes.add("random")
            if node.args is None:
                node.args = torch._C.parse_schema(schema).arguments
            for a, v in zip(node.args, ins):
                if isinstance(v, torch.Tensor) and a.is_write and not (kind.endswith("dropout_") and not (ins[2] and ins[1])):
                    writes |= places(v)
        first = ins[0] if ins else None
        if kind in ("aten::__getitem__", "aten::_set_item") and isinstance(first, list) and len(first):
            (writes if kind == "aten::_set_item" else reads).add(("c", id(first), ins[1] % len(first)))
            return
        if kind == "prim::GetAttr":
            reads.add(("a", id(first), node.node.s("name")))
            return
        if kind == "prim::SetAttr":
            writes.add(("a", id(first), node.node.s("name")))
            return
        calls = kind.startswith("prim::Call") or kind == "prim::fork"
        if kind in METADATA and kind != "aten::len":
            if kind in ("prim::ListUnpack",):
                reads.add(("c", id(first)))
                for i in range(len(first)):
                    reads.add(("c", id(first), i))
            return
        # Values that are put in or passed on are not examined.
        for v in ins[:1] if kind in HANDS_ON else ins:
            for r in reach(v).values():
                if isinstance(r, (list, dict)):
                    if kind in ("aten::append", "aten::insert", "aten::extend", "aten::pop", "aten::reverse", "aten::clear",
                                "aten::Delete", "aten::_set_item", "aten::update", "aten::setdefault", "aten::add_",
                                "aten::popitem", "aten::sort") and r is not first:
                        if v is not first and r is v:
                            reads |= {("c", id(r))} | {("c", id(r), i) for i in range(len(r))}
                        continue
                    if r is not v and kind in ("aten::list", "aten::copy", "aten::values", "aten::items", "aten::__getitem__",
                                               "aten::get", "aten::add", "aten::slice", "aten::len"):
                        continue
                    reads.add(("c", id(r)))
                    if isinstance(r, list) and kind != "aten::len":
                        reads |= {("c", id(r), i) for i in range(len(r))}
                elif isinstance(r, Object) and calls:
                    reads |= {("a", id(r), n) for n in vars(r)}
        if isinstance(first, (list, dict)) and kind in (
                "aten::append", "aten::insert", "aten::extend", "aten::pop", "aten::reverse", "aten::clear", "aten::Delete",
                "aten::_set_item", "aten::update", "aten::setdefault", "aten::add_", "aten::popitem", "aten::sort"):
            writes.add(("c", id(first)))
            if isinstance(first, list) and kind not in ("aten::append", "aten::extend", "aten::add_"):
                writes |= {("c", id(first), i) for i in range(len(first))}

    def call(self, graph, args, functions=None):
        sub = Run(Program(graph), self.functions, keep=False, free=self.free)
        out = sub.start(args)
        return out[0] if len(out) == 1 else tuple(out)

    def run(self, node, kind, ins):
        n = node.node
        if kind == "prim::Constant":
            v = n.output()
            if str(v.type()) == "Function" or n.hasAttribute("name") and n.kindOf("name") == "s":
                return [("function", n.s("name"))]
            return [v.toIValue()]
        if kind == "prim::If":
            take = self.free.random() < .5 if self.free and not isinstance(known(n.inputsAt(0)), bool) else ins[0]
            return self.block(node.blocks[0 if take else 1], [])
        if kind == "prim::Loop":
            trips, cond, carried = ins[0], ins[1], ins[2:]
            if self.free and known(n.inputsAt(0)) in (None, 2 ** 63 - 1):
                trips, cond = self.free.randint(0, 4), True
            i = 0
            while cond and i < trips:
                if i > 40:
                    raise Stop()
                out = self.block(node.blocks[0], [i] + carried)
                cond, carried = out[0] or bool(self.free), out[1:]
                i += 1
            return carried
        if kind == "prim::CallFunction":
            name = ins[0][1]
            if name not in self.functions:
                self.functions[name] = torch.jit.script(getattr(torch.nn.functional, name)).inlined_graph
            return [self.call(self.functions[name], ins[1:])]
        if kind == "prim::CallMethod":
            f = self.functions.get((str(n.inputsAt(0).type()), n.s("name")))
            if f is None:
                f = getattr(ins[0], n.s("name")).graph
            return [self.call(f, ins)]
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
            return [ins[0][n.i("beg"):n.i("end")]]
        if kind == "prim::GetAttr":
            return [getattr(ins[0], n.s("name"))]
        if kind == "prim::SetAttr":
            setattr(ins[0], n.s("name"), ins[1])
            return []
        if kind in ("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"):
            return [ins[0]]
        if kind == "prim::Uninitialized":
            return [None]
        if kind in ("prim::Print", "aten::warn"):
            return []
        if kind == "aten::str":
            return [str(ins[0])]
        if kind == "aten::format":
            return [ins[0].format(*ins[1:])]
        if kind in ("prim::Enter", "prim::Exit"):
            return [None] * len(node.outs)
        if kind == "aten::dict" and isinstance(ins[0], list):
            return [dict(ins[0])]
        if kind == "prim::RaiseException":
            raise Stop()
        if kind == "prim::fork":
            return [Future(self.call(n.g("Subgraph"), ins))]
        if kind in ("prim::FunctionalGraph", "prim::DifferentiableGraph", "prim::FusionGroup", "prim::TensorExprGroup"):
            out = self.call(n.g("Subgraph"), ins)
            return list(out) if len(node.outs) > 1 else [out]
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
        if node.call is None:
            schema = n.schema()
            if "(no schema)" in schema:
                raise NotImplementedError(kind)
            full = schema[:schema.index("(")]
            overload = full.split(".")[1] if "." in full else ""
            node.call = torch._C._get_operation_overload(kind, overload)[0]
            node.args = torch._C.parse_schema(schema).arguments
        plain = [v for a, v in zip(node.args, ins) if not a.kwarg_only]
        named = {a.name: v for a, v in zip(node.args, ins) if a.kwarg_only}
        got = node.call(*plain, **named)
        if not node.outs:
            return []
        return [got] if len(node.outs) == 1 else list(got)

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
            return [d.pop(*ins[1:])]
        if name == "popitem":
            return [d.popitem()]
        if name == "setdefault":
            return [d.setdefault(ins[1], ins[2])]
        if name == "update":
            d.update(ins[1])
            return []
        if name in ("copy", "dict"):
            return [dict(d)]
        if name == "clear":
            d.clear()
            return []
        if name == "Delete":
            del d[ins[1]]
            return []
        raise NotImplementedError("dict " + name)
