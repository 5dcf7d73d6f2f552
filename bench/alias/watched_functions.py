"""Little functions for watch.py, as TorchScript's compiler and tracer print them."""

import inspect
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

FUNCTIONS = []


def watched(f):
    FUNCTIONS.append(f)
    return f


@watched
def views(x: Tensor, y: Tensor):
    a = x.t()
    b = a[0]
    c = x.view(-1)
    d = x.reshape(2, 2, 4)
    e = x.flatten()
    b.add_(1)
    return a, b, c, d, e, x.expand(3, 4, 4), x.permute(1, 0).contiguous()


@watched
def rows(x: Tensor, i: int):
    a = x[0]
    b = x[1]
    c = x[i]
    a.mul_(2)
    c.add_(1)
    return b


@watched
def chunks(x: Tensor):
    a, b = x.chunk(2)
    c = torch.split(x, 1)
    c[0].zero_()
    b.add_(a)
    return a, b


@watched
def unbinds(x: Tensor):
    l = x.unbind(0)
    l[1].fill_(3.0)
    s = torch.stack(l)
    return s, l[2]


@watched
def lists(x: Tensor, y: Tensor):
    l = [x, y]
    l.append(x + y)
    m = l
    m[0].add_(1)
    k = l[2]
    k.mul_(2)
    n = l.pop()
    l.insert(0, n)
    l.reverse()
    return l[0], k, n


@watched
def list_of_lists(x: Tensor, y: Tensor):
    l = [[x], [y]]
    a = l[0]
    a.append(y * 2)
    b = l[1][0]
    b.add_(1)
    return l, a


@watched
def extends(x: Tensor, y: Tensor):
    l = [x]
    m = [y, y.t()]
    l.extend(m)
    l += [x * 2]
    c = l + m
    d = l.copy()
    d[1].mul_(2)
    e = l[1:3]
    e[0].add_(1)
    return c, d, e


@watched
def dicts(x: Tensor, y: Tensor):
    d: Dict[str, Tensor] = {"a": x, "b": y}
    d["c"] = x + 1
    e = d["a"]
    e.add_(2)
    for k in d:
        d[k].mul_(2)
    v = d.pop("c")
    v.zero_()
    w = d.get("b")
    if w is not None:
        w.add_(1)
    return d, v


@watched
def dict_values(x: Tensor, y: Tensor):
    d = {"a": x, "b": y * 2}
    s = x.new_zeros(4, 4)
    for v in d.values():
        v.add_(1)
        s = s + v
    for k, v in d.items():
        s.add_(v)
    return s


@watched
def tuples(x: Tensor, y: Tensor):
    t = (x, y, x + y)
    a, b, c = t
    c.add_(1)
    u = (t[1], (a, c))
    u[1][0].mul_(2)
    return u


@watched
def branches(x: Tensor, y: Tensor, c: bool):
    if c:
        a = x
        b = y.t()
    else:
        a = x + y
        b = x[0]
    a.add_(1)
    return a, b


@watched
def nested_branches(x: Tensor, y: Tensor, c: bool, d: bool):
    z = x * 2
    if c:
        if d:
            r = z
        else:
            r = y
        r.add_(1)
    else:
        r = x.clone()
    return r, z


@watched
def loops(x: Tensor, y: Tensor, n: int):
    a = x * 1
    p = a
    for i in range(n):
        p.add_(1)
        p = y * 2
    p.mul_(3)
    return a, p


@watched
def zero_trips(b: Tensor, n: int):
    a = torch.ones(2)
    p = a
    for i in range(n):
        p = b
    p.add_(1)
    return a


@watched
def rotation(n: int):
    a = torch.zeros(2)
    b = torch.zeros(2)
    c = torch.zeros(2)
    for i in range(n):
        a, b, c = c, a, b
        a.add_(1)
    return a, b, c


@watched
def whiles(x: Tensor, n: int):
    l: List[Tensor] = []
    i = 0
    y = x
    while i < n:
        l.append(y)
        y = y + 1
        if i == 1:
            y.t_()
        i += 1
    if len(l) > 1:
        l[1].zero_()
    return l, y


@watched
def loop_lists(x: Tensor, n: int):
    l = [x.clone()]
    for i in range(n):
        q = l[0]
        l = [q + 1, q]
        l[1].add_(1)
        for j in range(2):
            l.append(l[j].t())
    return l


@watched
def breaks(x: Tensor, n: int):
    y = x.clone()
    for i in range(n):
        if i == 2:
            y = x
            break
        if i == 0:
            continue
        y.add_(1)
    y.mul_(2)
    return y


@watched
def early_return(x: Tensor, c: bool):
    y = x + 1
    if c:
        y.add_(1)
        return x
    z = y.t()
    z.mul_(3)
    return z


@watched
def optionals(x: Tensor, y: Optional[Tensor]):
    if y is not None:
        z = y
    else:
        z = x * 2
    z.add_(1)
    return z


@watched
def prints(x: Tensor):
    print(x)
    x.add_(1)
    print("now", x)
    assert x.dim() == 2
    return x


@watched
def geometry(x: Tensor, y: Tensor):
    a = x.clone()
    b = a[0]
    a.t_()
    a.unsqueeze_(0)
    a.squeeze_(0)
    b.add_(1)
    a.resize_(2, 2)
    a.zero_()
    c = y.clone()
    c.set_(a)
    c.add_(1)
    return a, b, c


@watched
def same_tensor_ops(x: Tensor):
    a = x.contiguous()
    b = x.to(torch.float32)
    c = x.type_as(x)
    d = x.float()
    e = x.double()
    f = x.detach()
    g = torch.dropout(x, 0.5, False)
    h = torch.atleast_1d(x)
    i = x.expand_as(x)
    k = x.view_as(x)
    l = torch.broadcast_to(x, [4, 4])
    m = x.to("cpu")
    n = x.sum_to_size(4, 4)
    o = x.reshape_as(x)
    p = x.cpu()
    a.add_(1)
    return b, c, d, e, f, g, h, i, k, l, m, n, o, p


@watched
def norms(x: Tensor, m: Tensor, v: Tensor, t: bool):
    a = torch.batch_norm(x, None, None, m, v, True, 0.1, 1e-5, False)
    b = torch.batch_norm(x, None, None, m, v, False, 0.1, 1e-5, False)
    c = torch.batch_norm(x, None, None, m, v, t, 0.1, 1e-5, False)
    d = torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    e = torch.instance_norm(x.unsqueeze(0), None, None, m, v, True, 0.1, 1e-5, False)
    return a, b, c, d, e


@watched
def outs(x: Tensor, y: Tensor):
    o = torch.empty(4, 4)
    r = torch.add(x, y, out=o)
    s = torch.mul(o, x, out=o)
    r.sub_(1)
    v, i = torch.max(x, 0)
    v.add_(1)
    return s, v, i


@watched
def foreach(x: Tensor, y: Tensor):
    l = [x, y.clone()]
    torch._foreach_add_(l, 1.0)
    m = torch._foreach_mul(l, 2.0)
    m[0].add_(1)
    torch._foreach_copy_(m, l)
    return l[1], m


@watched
def broadcasts(x: Tensor, y: Tensor):
    a, b = torch.broadcast_tensors([x, y[0]])
    c, d = torch.meshgrid([x[0], y[0]])
    a.add_(1)
    e = torch.einsum("ij->ji", x)
    f = torch.einsum("ij,jk->ik", x, y)
    g = torch.movedim(x, 0, 1)
    h = torch.tensor_split(x, 2)
    h[0].zero_()
    return b, c, d, e, f, g


@watched
def slices(x: Tensor, i: int):
    a = x[0:2]
    b = x[2:4]
    c = x[::2]
    d = x[1::2]
    e = x[:, 1]
    f = x[..., 2:]
    g = x.diagonal()
    h = x.narrow(0, 1, 2)
    j = torch.as_strided(x, [2, 2], [4, 1], 8)
    a.add_(1)
    c.mul_(2)
    f.zero_()
    x[i, 0:2] = 3.0
    return b, d, e, g, h, j


@watched
def index_writes(x: Tensor, y: Tensor):
    z = x.clone()
    z[0] = y[1]
    z[:, 1] = 0
    z[z > 0] = 1.0
    i = torch.tensor([0, 1])
    z.index_add_(0, i, y[0:2])
    w = z[i]
    w.add_(1)
    z.index_put_([i], y[2:4])
    z.scatter_(0, torch.zeros(1, 4, dtype=torch.long), 2.0)
    z.copy_(y)
    z.masked_fill_(y > 0, 0.0)
    return z, w


@watched
def randoms(x: Tensor):
    a = torch.rand(4, 4)
    b = torch.rand_like(x)
    a.uniform_()
    b.bernoulli_(0.5)
    return a, b


class Pair(NamedTuple):
    a: Tensor
    b: Tensor


@watched
def named(x: Tensor, y: Tensor):
    p = Pair(x, y + 1)
    p.a.add_(1)
    q = Pair(p.b, p.a)
    q.a.mul_(2)
    return q


@watched
def list_inputs(l: List[Tensor], x: Tensor):
    a = l[0]
    b = l[1]
    a.add_(1)
    l.append(x)
    l[0] = x * 2
    c = l[0]
    c.mul_(2)
    d = torch.cat(l)
    return b, c, d


@watched
def dict_inputs(d: Dict[str, Tensor], x: Tensor):
    a = d["a"]
    d["b"] = x
    a.add_(1)
    d["b"].mul_(2)
    return a


@watched
def tuple_inputs(t: Tuple[Tensor, List[Tensor]], x: Tensor):
    a, l = t
    l.append(a)
    a.add_(1)
    l[0].mul_(2)
    return x, l


def helper(x: Tensor, l: List[Tensor]) -> Tensor:
    l.append(x)
    x.add_(1)
    return x.t()


@watched
def calls(x: Tensor, y: Tensor):
    l = [y]
    a = helper(x, l)
    b = helper(x * 2, l)
    b.mul_(2)
    return a, l


def slow(x: Tensor, y: Tensor) -> Tensor:
    return (x + y).t()


@watched
def forks(x: Tensor, y: Tensor):
    f = torch.jit.fork(slow, x, y)
    z = x * 2
    w = torch.jit.wait(f)
    w.add_(1)
    return z, w


def passes_through(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    y.add_(1)
    return x, y[0]


@watched
def forks_that_share(x: Tensor, y: Tensor):
    f = torch.jit.fork(passes_through, x, y)
    a, b = torch.jit.wait(f)
    a.mul_(2)
    return b


@watched
def ints(l: List[int], x: Tensor):
    l.append(3)
    m = [1, 2]
    m[0] = 5
    n = m
    n += l
    s = x.view([4, 4])
    k = x.size()
    k.append(1)
    return m, s, l


@watched
def empties(n: int):
    a = torch.empty(0)
    b = a.view(0)
    c = torch.zeros(3)
    d = c[0:0]
    e = c[3:]
    c.add_(1)
    return a, b, d, e


@watched
def dtypes(x: Tensor):
    a = torch.view_as_complex(x.reshape(4, 2, 2))
    b = torch.real(a)
    c = a.imag
    d = x.to(torch.int64)
    b.add_(1)
    return c, d


@watched
def lstm(x: Tensor, h: Tensor, c: Tensor):
    g = torch.mm(x, h)
    i, f = g.chunk(2, 1)
    o, k = torch.sigmoid(i), f.tanh_()
    c2 = c[:, 0:2] * k
    return o * c2, c2


@watched
def sorts(x: Tensor):
    v, i = torch.sort(x, 0)
    t = torch.topk(x, 2)
    u = torch.unique(x)
    v.add_(1)
    return t[0], i, u


@watched
def list_of_optional(x: Tensor, y: Tensor):
    l: List[Optional[Tensor]] = [None, x]
    a = l[1]
    if a is not None:
        a.add_(1)
    z = torch.zeros(4, 4)
    z[torch.tensor([0]), torch.tensor([1])] = 5.0
    return z


@watched
def conditionals(x: Tensor, y: Tensor, c: bool):
    z = x if c else y
    w = [x, y][0] if c else z.t()
    z.add_(1)
    return w


@watched
def comprehension(x: Tensor, n: int):
    l = [x[i] for i in range(n)]
    m = [v * 2 for v in l]
    l[0].zero_()
    m[0].add_(1)
    return l, m


@watched
def swaps(x: Tensor, y: Tensor, n: int):
    a, b = x.clone(), y.clone()
    for i in range(n):
        a, b = b, a
        a[0].add_(1)
        if i > 1:
            b = a.t()
    return a, b


@watched
def more_dicts(x: Tensor, y: Tensor):
    d: Dict[str, List[Tensor]] = {}
    d["a"] = [x]
    e = d.setdefault("b", [y])
    e.append(x * 2)
    d.setdefault("a", [y])[0].add_(1)
    f = {"c": [y.t()]}
    d.update(f)
    d["c"][0].mul_(2)
    g = d.copy()
    g["a"].append(y)
    k = list(d.values())
    del d["a"]
    return k, g, f, e


@watched
def int_keys(x: Tensor, n: int):
    d: Dict[int, Tensor] = {}
    for i in range(n):
        d[i] = x[i]
    if n in d:
        d[n].zero_()
    if 1 in d:
        d[1].add_(1)
    return d


@watched
def list_surgery(x: Tensor, y: Tensor):
    l = [x, y, x + y]
    del l[0]
    a = l[0]
    l.insert(1, x.t())
    b = l[1]
    b.add_(1)
    l.reverse()
    m = l * 2
    m[3].mul_(2)
    l.clear()
    l.append(a)
    return l, m, list(m)


@watched
def zips(x: Tensor, y: Tensor):
    a = [x, y]
    b = [y * 2, x * 2]
    c: List[Tensor] = []
    for i, (p, q) in enumerate(zip(a, b)):
        q.add_(p)
        c.append(q if i == 0 else p)
    c[1].mul_(2)
    return c, b


@watched
def tuples_in_loops(x: Tensor, y: Tensor, n: int):
    t = (x.clone(), y.clone())
    for i in range(n):
        a, b = t
        t = (b, a + 1)
        b[0].zero_()
    t[0].add_(1)
    return t


@watched
def lists_in_loops(x: Tensor, n: int):
    out: List[List[Tensor]] = []
    cur = [x]
    for i in range(n):
        out.append(cur)
        cur = [cur[0].t(), cur[-1] + 1]
        cur[0].add_(1)
    if len(out) > 0:
        out[0][0].mul_(2)
        out[-1].append(x)
    return out, cur


@watched
def nested_loops(x: Tensor, y: Tensor, n: int):
    a, b = x.clone(), y.clone()
    for i in range(n):
        c = a
        for j in range(i):
            c = b
            b = b.t() if j == 0 else a
            c.add_(1)
        a = c[0:2].repeat(2, 1)
    b.mul_(3)
    return a, b


@watched
def opt_lists(x: Tensor, n: int):
    l: Optional[List[Tensor]] = None
    if n > 1:
        l = [x, x * 2]
    if l is not None:
        l[0].add_(1)
        l.append(x)
    else:
        l = [x.t()]
    return l


@watched
def copies(x: Tensor, y: Tensor, c: bool):
    a = torch.empty_like(x)
    a.copy_(y)
    b = a.to(torch.float64)
    d = b.to(torch.float32, copy=c)
    e = a.to(torch.float32, copy=True)
    f = a.contiguous().clone()
    g = a.type(torch.float32) if c else a.view(2, 8)
    g.zero_()
    d.add_(1)
    h = a.unfold(0, 2, 1)
    k = torch.flip(a, [0])
    m = a.squeeze().unsqueeze(0).flatten(0, 1)
    m.add_(1)
    return b, e, f, h, k


@watched
def many_views(x: Tensor):
    a = x.unflatten(1, [2, 2])
    b = x.swapaxes(0, 1)
    c = x.ravel()
    d = torch.atleast_3d(x)
    e = x.mT
    f = x.split([1, 3])
    g = x.hsplit(2)
    h = torch.select_scatter(x, x[1], 0, 0)
    k = x.index_select(0, torch.arange(2))
    l = x.take_along_dim(torch.zeros(1, 4, dtype=torch.long), 0)
    m = torch.squeeze(x[0:1], 0)
    m.add_(1)
    f[1].mul_(2)
    g[0].zero_()
    return a, b, c, d, e, h, k, l


@watched
def scalars(x: Tensor):
    n = x.size(0)
    s = x.sum()
    v = float(s.item())
    s.add_(v)
    y = torch.full([n], v)
    y[0] = s
    return y, s


@watched
def losses(x: Tensor, y: Tensor):
    a = torch.nn.functional.relu(x, inplace=True)
    b = torch.nn.functional.dropout(y, 0.5, False, True)
    c = torch.nn.functional.hardtanh(x, inplace=True)
    d = torch.nn.functional.layer_norm(y, [4])
    e = torch.nn.functional.pad(x, [0, 0])
    f = torch.nn.functional.interpolate(x.view(1, 1, 4, 4), scale_factor=1.0)
    g = torch.nn.functional.softmax(x, 1)
    g.add_(1)
    f.add_(1)
    return a, b, c, d, e


@torch.jit.script
class Box:
    def __init__(self, t: Tensor):
        self.t = t
        self.l = [t]

    def put(self, t: Tensor):
        self.l.append(t)
        self.t = t


@watched
def objects(x: Tensor, y: Tensor, c: bool):
    b = Box(x)
    a = b.t
    b.put(y)
    b.t.add_(1)
    d = b if c else Box(x * 2)
    d.l[0].mul_(2)
    d.t = x + y
    d.t.zero_()
    return a, b.l, b.t


def several(x: Tensor, l: List[Tensor]) -> Tuple[List[Tensor], Tensor]:
    l.append(x)
    return l, x + 1


@watched
def forks_of_lists(x: Tensor, y: Tensor):
    l = [y]
    f = torch.jit.fork(several, x, l)
    m, z = torch.jit.wait(f)
    m[0].add_(1)
    l[1].mul_(2)
    z.zero_()
    return m, l


@watched
def without_gradients(x: Tensor, y: Tensor):
    a = x * 2
    with torch.no_grad():
        b = a[0]
        b.add_(y[0])
        c = y + 1
    return a, c


@watched
def raises(x: Tensor, n: int):
    if n > 2:
        raise ValueError("bad {}".format(n))
    assert n < 10, "too big"
    y = x[n]
    y.zero_()
    if n == 0:
        return y
    z = x + 1
    if n == 1:
        return z
    return z.t()


@watched
def more_lists(x: Tensor, y: Tensor, n: int):
    l = [x, y, x + 1]
    l[-1] = y.t()
    del l[0]
    m = l[::2]
    m += [x]
    q = m * 2
    l.insert(-1, x)
    i = [n, 3]
    i.sort()
    i.remove(3)
    k = [t * 2 for t in q]
    q.clear()
    l.extend(k[1:])
    for t in l:
        t.add_(1)
    return l, m, q, k.pop(0), i


@watched
def more_dictionaries(x: Tensor, y: Tensor, s: str):
    d: Dict[str, Tensor] = {"a": x}
    d[s] = y
    e = dict(d)
    d.update({"z": x + y})
    t = d.setdefault("q", x.t())
    w = d.get("nope", y)
    p = d.pop("a")
    del d["z"]
    key, last = d.popitem()
    c = d.copy()
    d.clear()
    for v in c.values():
        v.mul_(2)
    nested: Dict[str, List[Tensor]] = {"l": [x]}
    nested["l"].append(y)
    pairs = list(e.items())
    return e, t, w, p, last, nested["l"][0], pairs[0][1]


@watched
def text(x: Tensor, s: str):
    a = s.upper() + "x"
    parts = a.split(",")
    b = " ".join(parts)[1:3].replace("a", "b")
    print(b, x)
    y = x[len(b):]
    y.neg_()
    return y, f"{s} {a.find('q')}", str(x.size(0))


@watched
def optional_lists(x: Tensor, y: Optional[Tensor], l: Optional[List[Tensor]]):
    if y is None:
        y = x
    if l is None:
        l = [y]
    else:
        l.append(x)
    r = l[0] if len(l) > 1 else None
    if r is not None:
        r.add_(1)
    assert y is not None
    return l, y, r


@watched
def futures_in_lists(l: List[Tensor], x: Tensor):
    waiting = [torch.jit.fork(slow, x, x)]
    for t in l:
        waiting.append(torch.jit.fork(slow, t, x))
    out: List[Tensor] = []
    for f in waiting:
        out.append(torch.jit.wait(f))
    out[0].add_(1)
    return out


@watched
def parts_of_complex_numbers(x: Tensor):
    c = torch.view_as_complex(x.reshape(-1, 2))
    r = c.real
    i = c.imag
    i.add_(1)
    z = torch.view_as_real(c)
    z[..., 0].zero_()
    return r, i, z, c.conj()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.bn = torch.nn.BatchNorm1d(4)
        self.register_buffer("state", torch.zeros(4, 4))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        y = self.lin(x)
        y = torch.relu_(self.bn(y))
        self.state.add_(y)
        self.count += 1
        s = self.state
        self.state = y.detach()
        self.state.mul_(2)
        return y, s


def traced_one(x, y):
    a = x[0:2]
    a.add_(1)
    b = torch.cat([a, y]).transpose(0, 1)
    b[0] = 2
    return b.relu_(), x.view(16), torch.stack([x[0], y[0]]).unbind(0)


def traced_two(x, y):
    z = x.expand(2, 4, 4).clone()
    z[0].copy_(y)
    u, v = z.split(1)
    u.squeeze_(0)
    return u.mul_(v[0]), torch.nn.functional.dropout(z, 0.5, False)


def makers(f):
    """Arguments, in several arrangements of memory."""
    sig = inspect.signature(f)

    def tensor():
        return torch.randn(4, 4)

    def one(annotation, kind, pool):
        if annotation in (Tensor, Optional[Tensor], inspect.Parameter.empty):
            name = kind
            if name == "apart":
                return tensor()
            if name in ("same", "doubles"):
                return pool[0]
            if name == "views":
                return pool[1].view(8, 4)[len(pool[2]):len(pool[2]) + 4] if not pool[2].append(1) else None
            return pool[0].t()
        if annotation is int:
            return pool[3]
        if annotation is bool:
            return pool[4]
        if annotation == List[Tensor]:
            return [one(Tensor, kind, pool) for _ in range(3)]
        if annotation is str:
            return "ab"[:n] if (n := pool[3]) else "a,q"
        if annotation == Optional[List[Tensor]]:
            return None if pool[3] == 0 else [one(Tensor, kind, pool) for _ in range(2)]
        if annotation == List[int]:
            return [1, 2]
        if annotation == Dict[str, Tensor]:
            return {k: one(Tensor, kind, pool) for k in "abc"}
        if annotation == Tuple[Tensor, List[Tensor]]:
            return (one(Tensor, kind, pool), [one(Tensor, kind, pool)])
        raise NotImplementedError(annotation)

    def make(kind, n, c):
        def go():
            pool = [tensor().double() if kind == "doubles" else tensor(), torch.randn(32), [], n, c]
            args = []
            for p in sig.parameters.values():
                if p.name in ("m", "v") and f.__name__ == "norms":
                    args.append(torch.rand(4) + 1)
                elif f.__name__ == "optionals" and p.name == "y" and n == 0:
                    args.append(None)
                else:
                    args.append(one(p.annotation, kind, pool))
            return args
        return go

    kinds = ("apart", "same", "views", "turned", "doubles")
    return [make(k, n, c) for k in kinds for n in (0, 1, 2, 3) for c in (False, True)]


def all_graphs():
    for f in FUNCTIONS:
        g = torch.jit.script(f).graph.copy()
        torch._C._jit_pass_inline(g)
        for fork in g.findAllNodes("prim::fork"):
            torch._C._jit_pass_inline(fork.g("Subgraph"))
        yield f.__name__, g, makers(f)
    for f in (traced_one, traced_two):
        x = [torch.randn(4, 4), torch.randn(4, 4)]
        t = torch.jit.trace(f, [a.clone() for a in x], check_trace=False)
        yield f.__name__, t.graph, [lambda: [torch.randn(4, 4), torch.randn(4, 4)]]
    nn = torch.nn
    modules = {
        "linear": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2)), [torch.randn(3, 4)]),
        "conv": (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(True), nn.MaxPool2d(2), nn.Flatten()),
                 [torch.randn(1, 1, 8, 8)]),
        "gru": (nn.GRU(4, 4), [torch.randn(3, 1, 4)]),
        "embedding": (nn.Embedding(5, 4), [torch.tensor([1, 2])]),
    }
    for name, (module, args) in modules.items():
        for mode in ("train", "eval"):
            getattr(module, mode)()
            traced = torch.jit.trace(module, args, check_trace=False)
            yield f"{name} traced, {mode}", traced.inlined_graph, [lambda: [traced] + [a.clone() for a in args]]
            scripted = torch.jit.script(module)
            if name == "gru":  # overloaded: no forward of its own
                continue
            g = scripted.graph.copy()
            torch._C._jit_pass_inline(g)
            yield f"{name} scripted, {mode}", g, [lambda: [scripted] + [a.clone() for a in args]]
    net = torch.jit.script(Net())
    g = net.graph.copy()
    torch._C._jit_pass_inline(g)
    yield "Net", g, [lambda: [torch.jit.script(Net()), torch.randn(4, 4)]]
