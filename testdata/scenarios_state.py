"""Scenarios for make_scenarios.py: state, the functional dialect, control flow, hidden aliases, refusals."""

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from scenario_kit import one, over, randn, scenario, slices, two

# State ---------------------------------------------------------------------------------------------------------------


class counter_in_a_buffer(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


scenario(one(3), one(3))(counter_in_a_buffer)


class row_of_a_buffer_written_at_a_position(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x, position):
        self.cache.index_copy_(0, position, x)
        return self.cache.sum(0)


scenario(*[(lambda p=p: (randn(1, 4), torch.tensor([p]))) for p in (0, 3, 3)])(row_of_a_buffer_written_at_a_position)


class slice_of_a_buffer_written(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x):
        self.cache[2:4] = x
        self.cache[:, 3].add_(1)
        return self.cache[1:3] * 2


scenario(one(2, 4), one(2, 4))(slice_of_a_buffer_written)


class buffer_returned(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.arange(6.0).view(2, 3))

    def forward(self, x):
        self.state.add_(x)
        return self.state, self.state[1]


scenario(one(2, 3), one(2, 3))(buffer_returned)


class returned_buffer_passed_back(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.arange(6.0))

    def forward(self, x):
        x.mul_(2)
        self.state.add_(1)
        return self.state[:6], x + self.state


scenario(one(6), lambda earlier: (earlier[0][1][0],), lambda earlier: (earlier[0][1][1],), earlier=True,
         example=one(6))(returned_buffer_passed_back)


class buffers_that_share_a_storage(nn.Module):

    def __init__(self):
        super().__init__()
        base = torch.arange(12.0)
        self.register_buffer("left", base[:8])
        self.register_buffer("right", base[4:].view(2, 4))

    def forward(self, x):
        self.left.mul_(2)
        self.right.t()[0].add_(x)
        return self.left + 1


scenario(one(2), one(2))(buffers_that_share_a_storage)


class tied_parameters_one_written(nn.Module):

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        y = self.a(x)
        self.b.weight.mul_(0.5)
        return self.a(y)


scenario(one(2, 4), one(2, 4))(tied_parameters_one_written)


class transposed_weight_kept_transposed(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(4, 3).t())

    def forward(self, x):
        self.weight[0].add_(1)
        return x @ self.weight


scenario(one(2, 3), one(2, 3))(transposed_weight_kept_transposed)


class buffer_that_is_not_saved(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("scratch", torch.ones(3), persistent=False)

    def forward(self, x):
        self.scratch.mul_(x)
        return self.scratch + 1


scenario(one(3), one(3))(buffer_that_is_not_saved)


class batch_norm_in_training(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return F.relu(self.norm(x), inplace=True)


scenario(one(2, 3, 4, 4),
         one(3, 3, 4, 4),
         example=one(2, 3, 4, 4),
         dynamic_shapes={"x": {
             0: torch.export.Dim("n", min=2, max=9)
         }},
         train=True)(batch_norm_in_training)


class parameters_updated_in_place(nn.Module):

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        y = F.linear(x, self.weight)
        self.weight.sub_(0.1 * (y.t() @ x))
        return y.sum()


scenario(one(5, 4), one(5, 4))(parameters_updated_in_place)


class ring_buffer(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 3))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.ring.index_copy_(0, self.at, x.unsqueeze(0))
        self.at.add_(1).remainder_(4)
        return self.ring.clone()


scenario(*[one(3)] * 5)(ring_buffer)

# The functional dialect: after run_decompositions, mutations stand in the signature only -----------------------------------


@scenario(one(4, 6), decompose=True)
def decomposed_input_written(x):
    x[1].mul_(2)
    return x.sum(1)


@scenario(lambda: (randn(4, 6), randn(4, 6), torch.tensor([0, 2])), decompose=True)
def decomposed_column_and_index_written(x, y, index):
    y = y + 3
    y[:, 0] = x[:, 0]
    y[index] = 7.0
    return y.t().contiguous()


@scenario(one(3, 4), decompose=True)
def decomposed_softmax_and_layer_norm(x):
    return F.softmax(F.layer_norm(x, (4,)), 1)


class decomposed_batch_norm_in_training(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return F.gelu(self.linear(self.norm(x)))


scenario(one(5, 4), one(5, 4), decompose=True, train=True)(decomposed_batch_norm_in_training)


class decomposed_buffer_written(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 4))

    def forward(self, x, position):
        self.cache.index_copy_(0, position, x)
        return self.cache.sum(0)


scenario(*[(lambda p=p: (randn(1, 4), torch.tensor([p]))) for p in (0, 3)], decompose=True)(decomposed_buffer_written)


class decomposed_written_and_returned(nn.Module):
    """What is written, and views of it: in the archive they are values, in eager memory of the caller and of the model."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(4))

    def forward(self, x, y):
        x[1].mul_(2)
        self.sum.add_(x[0])
        y.copy_(fresh := y + 1)
        return x, x.t()[1:], self.sum, self.sum[:2], fresh, x.clone(), x.split(1)[1]


scenario(lambda: (randn(3, 4), randn(3)), lambda: (randn(4, 3).t(), randn(3)),
         decompose=True)(decomposed_written_and_returned)


@scenario(one(3), decompose=True)
def decomposed_effects_in_order(x):
    torch.ops.aten._print("before")
    x.add_(1)
    torch.ops.aten._print("after")
    return x


class decomposed_attention(nn.Module):

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, 8))


scenario(one(2, 5, 8), decompose=True)(decomposed_attention)


class decomposed_convolution(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)

    def forward(self, x):
        return F.avg_pool2d(F.max_pool2d(F.relu(self.conv(x), inplace=True), 2), 2)


scenario(one(2, 2, 8, 8), decompose=True)(decomposed_convolution)

# Control flow --------------------------------------------------------------------------------------------------------


@scenario(lambda: (torch.tensor(True), randn(4)), lambda: (torch.tensor(False), randn(4)))
def cond_then_written(p, x):
    y = torch.cond(p, lambda x: x + 1, lambda x: x * 2, (x,))
    y.mul_(3)
    x.add_(1)
    return y


@scenario(lambda: (randn(4, 4).abs(),), lambda: (-randn(4, 4).abs(),))
def cond_on_a_value_over_a_view(x):
    v = x[1:]
    y = torch.cond(x.sum() > 0, lambda v: (v.sin(), v.sum()), lambda v: (v.cos(), v.mean()), (v,))
    v.zero_()
    return y


@scenario(lambda: (torch.tensor(True), torch.tensor(False), randn(3)), lambda:
          (torch.tensor(False), torch.tensor(True), randn(3)), lambda:
          (torch.tensor(True), torch.tensor(True), randn(3)))
def cond_nested(p, q, x):

    def inner(x):
        return torch.cond(q, lambda x: x.exp(), lambda x: x - 1, (x,))

    return torch.cond(p, inner, lambda x: x.neg(), (x,))


@scenario(lambda: (torch.tensor(5), randn(3)), lambda: (torch.tensor(0), randn(3)))
def while_loop_carries_tensors(n, x):
    i, y = torch._higher_order_ops.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.5 + i), (torch.zeros(
        (), dtype=torch.int64), x.clone()))
    y.add_(1)
    return i, y


@scenario(lambda: (torch.tensor(7), randn(2, 3), randn(2, 3)))
def while_loop_rotates(n, x, y):
    _, a, b = torch._higher_order_ops.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b.clone(), a + b),
                                                 (torch.zeros((), dtype=torch.int64), x.clone(), y.clone()))
    x.copy_(a)
    return b


# TorchScript's If and Loop, as text --------------------------------------------------------------------------------------


@scenario(lambda: (randn(4), True), lambda: (randn(4), False), script=True)
def script_write_in_a_branch(x: torch.Tensor, p: bool):
    y = x + 1
    if p:
        y.mul_(2)
        x.zero_()
    else:
        y[1:].add_(1)
    return y


@scenario(lambda: (randn(4, 3), 3), lambda: (randn(4, 3), 0), script=True)
def script_write_in_a_loop(x: torch.Tensor, n: int):
    y = x * 2
    for i in range(n):
        y[i].add_(i)
        x[:, 0].add_(y[i, 0])
    return y


@scenario(lambda: (randn(3), randn(3), randn(3), 4), script=True)
def script_loop_rotation(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, n: int):
    # Every carried value may be every argument after some rounds: a write to one is a write to all of them.
    for i in range(n):
        t = a
        a = c
        c = b
        b = t
        a.add_(1)
    return a + 0, b, c


@scenario(lambda: (randn(3), randn(3), True), lambda: (randn(3), randn(3), False), script=True)
def script_either_argument_is_written(a: torch.Tensor, b: torch.Tensor, p: bool):
    c = a
    if p:
        c = b
    c.mul_(2)
    return c, a + b


@scenario(lambda: (randn(4), randn(4)), script=True)
def script_list_of_tensors_written(a: torch.Tensor, b: torch.Tensor):
    tensors = [a, b + 1]
    tensors.append(a[1:])
    for t in tensors:
        t.mul_(2)
    return tensors[1], tensors[2]


@scenario(lambda: (randn(5), 10), lambda: (randn(5) * 100, 10), script=True)
def script_while_with_a_condition_that_is_written(x: torch.Tensor, limit: int):
    n = 0
    y = x.abs()
    while bool(y.sum() > 1) and n < limit:
        y.mul_(0.5)
        n += 1
    return y, n


@scenario(lambda: (randn(4, 4), 2), script=True)
def script_nested_loops_over_views(x: torch.Tensor, n: int):
    for i in range(n):
        row = x[i]
        for j in range(i + 1):
            row[j] = row[j] + x[j, i]
        if i > 0:
            x[i - 1].copy_(row)
    return x.sum()


@scenario(lambda: (randn(3, 4), True), lambda: (randn(3, 4), False), script=True)
def script_branch_returns_a_view_or_a_copy(x: torch.Tensor, p: bool):
    if p:
        y = x[1]
    else:
        y = x[1].clone()
    y.add_(10)
    return y * 2


# Operators that may return their argument -----------------------------------------------------------------------------------------------------


@scenario(one(6))
def dropout_in_inference_is_its_argument(x):
    y = F.dropout(x, 0.5, training=False)
    y.add_(1)
    return y


@scenario(two(6))
def type_as_may_be_its_argument(x, y):
    z = x.type_as(y)
    z.add_(1)
    return z


@scenario(lambda: (randn(3, 4), randn(4, 3).t()))
def contiguous_may_be_its_argument(x, y):
    a, b = x.contiguous(), y.contiguous()
    a.add_(1)
    b.mul_(2)
    return a, b


@scenario(lambda: (randn(4), randn(4, dtype=torch.float64)))
def to_may_be_its_argument(x, y):
    a, b = x.to(torch.float32), y.to(torch.float32)
    a.add_(1)
    b.add_(1)
    return a, b


@scenario(lambda: (randn(3, 4), randn(4, 3).t()))
def reshape_may_copy(x, y):
    a, b = x.reshape(12), y.reshape(12)
    a.add_(1)
    b.add_(1)
    return a, b


@scenario(lambda: (randn(3), randn(1, 3)))
def expand_as_and_broadcast_tensors_are_views(x, y):
    a, b = torch.broadcast_tensors(x, y)
    x.add_(1)
    y.mul_(2)
    return a, b, x.expand_as(y)


# Calls that PyTorch refuses --------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(3, 4),), lambda: (randn(1, 4).expand(3, 4),), example=one(3, 4))
def refused_write_to_expanded_memory(x):
    return x.add_(1)


@scenario(one(3, 3), lambda: (over(0, (3, 3), (2, 1), randn(9)),), example=one(3, 3))
def refused_write_to_overlapping_windows(x):
    x.mul_(2)


@scenario(two(8), slices(12, (0, 8), (4, 8)), example=two(8))
def refused_partly_overlapping_operands(x, y):
    x.add_(y)


@scenario(two(8), slices(12, (0, 8), (4, 8)), example=two(8))
def refused_after_a_write(x, y):
    x.mul_(2)
    y.add_(x)


@scenario(two(8), slices(12, (0, 8), (4, 8)), example=two(8))
def refused_partly_overlapping_out(x, y):
    torch.mul(x, 2, out=y)


@scenario(lambda: (randn(4), torch.tensor([0, 3])), lambda: (randn(4), torch.tensor([0, 4])))
def refused_index_out_of_range(x, index):
    return x[index]


@scenario(lambda: (randn(4), torch.tensor([0, 3])), lambda: (randn(4), torch.tensor([0, 4])))
def refused_index_out_of_range_written(x, index):
    x[index] = 1.0
    return x


@scenario(lambda: (randn(4, 3), torch.tensor([0, 2])), lambda: (randn(4, 3), torch.tensor([0, 3])), script=True)
def refused_computed_index_after_a_write(x, index):
    x.add_(1)
    return x[index + 1]


@scenario(lambda: (randn(4), torch.tensor([0, -4])), lambda: (randn(4), torch.tensor([0, -5])), script=True)
def refused_place_to_take_after_a_write(x, index):
    x.add_(1)
    return x.take(index)


@scenario(one(2), one(2), one(2))
class RefusedWhereTheCacheIsFull(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        x.mul_(2)
        self.cache.index_copy_(0, self.filled + torch.arange(2), x)
        self.filled.add_(2)
        return self.cache.sum()


# Sizes that are others in each call -----------------------------------------------------------------------------------


@scenario(one(2, 3), one(2, 3), one(2, 3))
class BuffersThatGrow(nn.Module):

    def __init__(self):
        super().__init__()
        storage = torch.arange(8.)
        self.register_buffer("empty", torch.zeros(0))
        self.register_buffer("few", torch.arange(4.))
        self.register_buffer("other", torch.ones(2, 3))
        self.register_buffer("grown", torch.zeros(2))
        self.register_buffer("first", storage[:4].view(2, 2))
        self.register_buffer("second", storage[2:6])

    def forward(self, x):
        self.few.resize_(2, 3).copy_(x)
        torch.mul(x, 2, out=self.empty)
        torch.sum(x, 0, out=self.other)
        self.grown.resize_(6)
        self.grown.resize_(2).add_(x[0, 0])
        self.first.resize_(3, 2).add_(x.t())
        self.second.mul_(2)
        return self.few + self.empty, self.other, self.grown * 2, self.second + 1


@scenario(one(2, 3), one(2, 3), one(2, 3))
class BuffersOfOtherDimsInEachCall(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("turned", torch.arange(6.).view(2, 3))
        self.register_buffer("deeper", torch.arange(3.))
        self.register_buffer("flat", torch.arange(6.).view(1, 2, 3))
        self.register_buffer("given", torch.zeros(3))

    def forward(self, x):
        self.turned.t_().mul_(2)
        self.deeper.unsqueeze_(0).transpose_(0, -1).add_(1)
        self.flat.squeeze_(0)
        a, b = self.flat.chunk(2)
        a.add_(x[0])
        self.given.set_(x[1])
        self.given.add_(1)
        return b + 1, self.flat, self.given, x * 2


@scenario(one(2, 3))
def rows_of_an_index_of_none_made_here(x):
    none = torch.full((0,), 1)
    x[none] += 1
    x[:, none] = 5
    x.index_fill_(1, none, 3.)
    return x.index_copy(0, none, torch.zeros(0, 3)), x[none]


@scenario(one(3), one(3))
class WrittenAttributesThatAreNoBuffers(nn.Module):

    def __init__(self):
        super().__init__()
        self.all = torch.arange(4.)
        self.last = self.all[1:]

    def forward(self, x):
        self.last.add_(x)
        return self.all * 1, self.last


# TorchScript: sizes that only the call has ------------------------------------------------------------------------------


@scenario(lambda: (randn(3, 4), 3), lambda: (randn(3, 4), 1), script=True)
def a_cache_that_cat_makes_longer_in_a_loop(x, n: int):
    k = x[:, :1]
    for t in range(n):
        k = torch.cat([k, x[:, t:t + 1] * 2], 1)
        k[0].mul_(2)
    x.add_(1)
    return k


@scenario(lambda: (randn(3, 4), 3), lambda: (randn(3, 4), 1), script=True)
def resized_to_a_number_that_is_given(x, n: int):
    y = x.clone()
    flat = y.view(-1)
    y.resize_(n, 2)
    flat.mul_(2)
    p, q = y.chunk(2)
    p.add_(1)
    for i in range(n):
        x.resize_(i + 1, 2).add_(1)
    return y.t(), q * 2, x


# Dynamic sizes: offsets of several dims, calls of one row ---------------------------------------------------------------


@scenario(two(7, 5), two(4, 5), example=two(7, 5), dynamic_shapes=({0: Dim("n", min=3)}, {0: Dim("n", min=3)}))
def elements_of_what_is_computed_counted_from_the_end(x, y):
    a = (x - y[:, :1])[-1, -1] + 1
    b = F.pad(x, (1, 2))[-1, -3] * 2
    c = (x.roll(1, 0) * x)[-1, -1] + 1
    d = torch.cat([x, x])[-1, -1] + 1
    e = x.flip(0)[-1, -1] + 1
    return a, b, c, d, e, (x + y).t()[-1, 1:] + 1


@scenario(lambda: (randn(12)[3:6].view(1, 3),), one(7, 3), example=one(7, 3), dynamic_shapes=({0: Dim("n", min=1, max=64)},))
def first_rows_where_there_is_one(x):
    x[:2].add_(1)
    return x * 1, x[:2] * 2, x.diagonal(-1, 1, 0) * 3


# set_ counts from where its source begins -------------------------------------------------------------------------------


@scenario(lambda: (torch.arange(18.)[3:12].view(3, 3),), one(3, 3), example=one(3, 3))
class SetWithinAPartOfAStorage(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("s", torch.arange(18.)[3:12].view(3, 3))

    def forward(self, x):
        self.s.set_(self.s, 0, (3, 3), (3, 1))
        self.s[0].add_(1)
        z = torch.empty(0).set_(x, 1, (2, 2), (2, 1))
        z.add_(1)
        x.set_(x, 2, (3, 2), (2, 1))
        return self.s * 1, z


@scenario(two(3, 3), lambda: (lambda a: (a, a))(randn(3, 3)), example=two(3, 3))
def refused_past_memory_that_was_set_after_a_write(x, y):
    x.add_(1)
    x.set_(x[1:] * 2)
    return y.as_strided((3, 3), (3, 1)) * 1


@scenario(one(3), lambda r: (r[0][1][0],), lambda r: (r[1][1][0],), earlier=True)
class PartsOfResultsPassedBack(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("s", torch.zeros(3))

    def forward(self, x):
        x.add_(1)
        v = torch.cat([x, x])
        self.s.set_(v[2:5])
        return v[1:4], self.s * 2
