"""Writes scenarios/: small programs about memory, each with what eager PyTorch lets a caller see.

    python3 testdata/make_scenarios.py [NAME...]

Each function below is one scenario, named after its archive. The decorator makes the arguments of its calls, one function
a call; `example` those that it is exported with, where they are others. Functions under @script are compiled by TorchScript
and written as text (.ir), for If and Loop. A line "PyTorch's export differs" says that the exported program, run by PyTorch on
the case's arguments, is not eager: the case is eager all the same.
"""

import glob
import os
import re
import sys
import zlib

import torch
from torch import nn
from torch.nn import functional as F

from record import record

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")
SCENARIOS = {}


def scenario(*calls, example=None, script=False, **options):

    def register(f):
        assert f.__name__ not in SCENARIOS, f.__name__
        SCENARIOS[f.__name__] = f, calls, example, script, options
        return f

    return register


def randn(*sizes, dtype=torch.float32):
    return torch.randn(sizes).to(dtype)


def over(offset, sizes, strides, base):
    return torch.as_strided(base, sizes, strides, offset)


def two(*sizes):
    """Two tensors that share nothing."""
    return lambda: (randn(*sizes), randn(*sizes))


def one(*sizes):
    return lambda: (randn(*sizes),)


def twice(*sizes):
    """One tensor passed twice."""

    def make():
        x = randn(*sizes)
        return x, x

    return make


def slices(n, *places):
    """1-D slices (start, length) of one tensor of n elements."""

    def make():
        base = randn(n)
        return tuple(base[a:a + k] for a, k in places)

    return make


def boxes(n, *places):
    """Strided views (offset, sizes, strides) of one tensor of n elements."""

    def make():
        base = randn(n)
        return tuple(over(o, s, t, base) for o, s, t in places)

    return make


# Functionalization: writes through views -----------------------------------------------------------------------------


@scenario(one(4, 6))
def several_views_of_one_fresh_base(x):
    b = x + 1
    row, column, flat = b[1], b[:, 2], b.view(-1)
    row.mul_(2)
    column.add_(10)
    flat[3:9].fill_(0.5)
    row.sub_(column[0])
    return b, row, column, flat


@scenario(one(4, 6))
def several_views_of_one_input(x):
    row, column, flat = x[1], x[:, 2], x.view(-1)
    row.mul_(2)
    column.add_(10)
    flat[3:9].fill_(0.5)
    return row + 1, column.sum()


@scenario(two(4, 6))
def copy_same_geometry(x, y):
    return x.copy_(y)


@scenario(lambda: (randn(4, 6), randn(6, 4).t()))
def copy_other_strides(x, y):
    z = x * 2
    z.copy_(y)
    x.t().copy_(y.t())
    return z


@scenario(lambda: (torch.randint(-9, 9, (4, 6)), randn(4, 6) * 3))
def copy_other_dtype(x, y):
    x.copy_(y)
    return y.copy_(x * 2)


@scenario(lambda: (randn(4, 6), randn(6), randn(4, 1)))
def copy_broadcast(x, y, z):
    x.copy_(y)
    w = x + 1
    w.copy_(z)
    return w


@scenario(lambda: (randn(3, 4, dtype=torch.bfloat16), randn(4, 1, dtype=torch.float64)))
def copy_other_dtype_broadcast_transposed(x, y):
    x.t().copy_(y)


@scenario(lambda: (randn(4, 6), torch.tensor([5, 0, 2]), randn(4, 3)))
def advanced_index_assignment(x, index, v):
    x[:, index] = v


@scenario(lambda: (randn(2, 4, 6), torch.tensor([5, 0, 2]), torch.tensor([1, 0, 1])))
def advanced_index_result_has_pytorchs_strides(x, index, other):
    return x[:, :, index], x[other, :, index], x.transpose(0, 2)[index]


@scenario(lambda: (randn(4, 6), randn(4, 6)))
def masked_assignment(x, y):
    x[y > 0] = 0
    y[y < 0] = 1.5


@scenario(lambda: (randn(4, 6), torch.tensor([1, 1, 3]), randn(3)))
def index_put_accumulate_on_a_view(x, index, v):
    x[:, 2].index_put_((index,), v, accumulate=True)
    return x[1]


@scenario(one(4, 6))
def view_clone_view_relu(x):
    return F.relu(x.view(-1).clone().view(6, 4), inplace=True)


@scenario(two(4, 6))
def out_resized(x, y):
    out = torch.empty(0)
    torch.add(x, y, out=out)
    return out


@scenario(lambda: (randn(4, 6), randn(4, 6), randn(4, 6)))
def out_is_an_input(x, y, z):
    torch.mul(x, y, out=z)
    return torch.sub(z, x, out=y)


@scenario(lambda: (randn(4, 6), randn(4, 6), randn(6, 4).t()))
def out_keeps_the_strides_of_the_given(x, y, out):
    return torch.add(x, y, out=out)


@scenario(lambda: (randn(4, 6), randn(4, 6), torch.zeros(8, 12)))
def out_is_a_view_of_an_input(x, y, base):
    torch.add(x, y, out=base[::2, 1::2])


@scenario(lambda: (randn(4, 6), torch.zeros(4), torch.zeros(4, dtype=torch.int64)))
def out_several_results(x, values, indices):
    torch.max(x, 1, out=(values, indices))
    return indices + 1


@scenario(lambda: (randn(4, 6), randn(4, 6), torch.zeros(4, 6, dtype=torch.float64)))
def out_other_dtype(x, y, out):
    torch.add(x, y, out=out)
    return out * 2


@scenario(one(4,))
def write_to_a_view_of_a_constant(x):
    c = torch.tensor([1.0, 2.0, 3.0, 4.0])
    c[1:3].add_(x[:2])
    return c + x


@scenario(lambda: (randn(4), randn(2, 3), randn(5)))
def foreach_on_inputs(a, b, c):
    torch._foreach_mul_([a, b, c], 2)
    torch._foreach_add_([a, c], [a.clone(), c.clone()], alpha=0.5)
    return torch._foreach_neg([a, b])


@scenario(one(5))
def foreach_with_one_tensor_seven_times(x):
    torch._foreach_add_([x] * 7, 1)
    torch._foreach_mul_([x[:3], x[1:], x], 2)


@scenario(lambda: (randn(5), randn(5)))
def foreach_reads_what_it_wrote(x, y):
    torch._foreach_add_([x, y], [y, x])


@scenario(one(30))
def as_strided_on_an_input(x):
    x.as_strided((3, 4), (6, 1), 2).mul_(2)
    return x.as_strided((2, 2), (1, 10), 5)


@scenario(one(6, 8))
def as_strided_after_a_view(x):
    v = x[1:, 2:]
    w = v.as_strided((2, 3), (8, 2), 3)  # the offset is absolute: not relative to v
    w.fill_(7)
    return v, w


@scenario(one(6, 8))
def as_strided_of_as_strided(x):
    b = x.clone()
    b[2:].as_strided((4, 4), (8, 1), 1).as_strided((3,), (9,), 0).add_(100)
    return b


@scenario(one(5, 5))
def diagonal_of_a_clone(x):
    y = x.clone()
    y.diagonal().add_(1)
    y.diagonal(1).mul_(2)
    return y


@scenario(one(5, 5))
def diagonal_of_an_input(x):
    d = x.diagonal(-1)
    d.copy_(x[0, 1:])
    return d


@scenario(one(4, 6))
def fill_on_a_diagonal(x):
    x.diagonal().fill_(0)
    x.fill_diagonal_(3)


@scenario(lambda: (randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),))
def channels_last_in_place(x):
    y = x + 1
    y[:, 1].mul_(2)
    x.relu_()
    return y, x.contiguous()


@scenario(one(6, 4))
def write_after_split(x):
    a, b = x.split(4)
    a.add_(1)
    b.mul_(2)
    return a, b


@scenario(one(6, 4))
def write_after_split_with_sizes(x):
    y = x * 2
    a, b, c = y.split([1, 2, 3])
    b.add_(a)
    c.zero_()
    return y, b


@scenario(one(3, 4))
def write_after_unbind(x):
    a, b, c = x.unbind(0)
    a.add_(b)
    c.copy_(a)
    return b


@scenario(one(4, 7))
def write_after_chunk(x):
    y = x + 0
    parts = y.chunk(3, 1)
    parts[0].zero_()
    parts[2].add_(parts[1][:, :1])
    return y, parts[1]


@scenario(one(4, 6))
def slice_after_transpose_in_place(x):
    y = x.clone()
    y.transpose_(0, 1)
    y[1:3].add_(5)
    return y


@scenario(lambda: (randn(4, 6), torch.tensor([0, 2]), randn(2)))
def index_put_on_a_view(x, index, v):
    x.t()[3].index_put_((index,), v)
    return x + 1


@scenario(lambda: (torch.tensor(2.0), torch.tensor(3, dtype=torch.int64)))
def scalar_tensors_in_place(x, n):
    x.add_(1).div_(4)
    n.mul_(5)
    return x * n


@scenario(two(3, 4))
def comparison_in_place_casts_back(x, y):
    x.ge_(y)
    return y.logical_not_()


@scenario(lambda: (torch.arange(5), randn(5)))
def integer_in_place_casts(x, y):
    x.mul_(3).floor_divide_(2)
    return x + y


@scenario(lambda: (randn(4, dtype=torch.bfloat16), randn(4)))
def bfloat16_in_place_rounds(x, y):
    x.add_(y)
    x.float().add_(1)
    return x.float() * 3


@scenario(one(2, 12))
def reshape_transpose_unsqueeze_squeeze_split_add(x):
    y = x.reshape(4, 6).transpose(0, 1)
    y = y.unsqueeze(0)
    y.squeeze_(0)
    a, b = y.split([2, 4])
    a.add_(1)
    b.unsqueeze_(1).mul_(2)
    return y, b


@scenario(one(3, 3), one(5, 3), dynamic_shapes={"x": {0: torch.export.Dim("n", min=3, max=9)}}, example=one(4, 3))
def symbolic_expand(x):
    y = x[:, :1].expand(x.size(0), 4)
    z = y.clone()
    z[1:].add_(1)
    x[0].copy_(z.sum(0)[:3])
    return y, z


@scenario(one(12))
def resize_smaller(x):
    y = x + 1
    y.resize_(2, 3)
    y.add_(1)
    return y


@scenario(one(12))
def resize_input_smaller(x):
    x.resize_(5)
    x.add_(1)
    return x[2:]


@scenario(one(12))
def resize_same_size_other_rank(x):
    y = x * 2
    y.resize_(3, 4)
    return y.t()


@scenario(one(3, 4))
def resize_input_to_a_lower_rank(x):
    x.mul_(2)
    x.resize_(12)
    return x.view(4, 3)


@scenario(one(1, 6))
def resize_larger(x):
    x.resize_(2, 6)
    x[1].copy_(x[0] * 2)


@scenario(one(3, 4))
def dead_view_write_persists(x):
    y = x + 1
    for i in range(3):
        y[i].mul_(i)
    del i
    return y


@scenario(one(3, 4))
def dead_view_of_input_write_persists(x):
    x.view(2, 6)[1].zero_()


@scenario(lambda: (randn(2, 3, 5), randn(3), torch.rand(3)))
def instance_norm_statistics_are_inputs(x, mean, var):
    return F.instance_norm(x, mean, var, use_input_stats=True, momentum=0.2)


@scenario(lambda: (randn(6, 3), randn(3), torch.rand(3)))
def batch_norm_statistics_are_inputs(x, mean, var):
    return F.batch_norm(x, mean, var, training=True, momentum=0.3), mean * 2


@scenario(lambda: (randn(6, 3), randn(3), torch.rand(3)))
def batch_norm_inference_writes_nothing(x, mean, var):
    return F.batch_norm(x, mean, var)


@scenario(one(4, 6))
def column_copied_from_a_row_of_itself(x):
    x[:, 0] = x[1, :4]
    return x.sum()


@scenario(one(10))
def overlapping_copy_within_one_tensor(x):
    x[1:] = x[:-1].clone()
    x[:5].add_(x[5:])


@scenario(lambda: (randn(4, 6), randn(4, 6)))
def swap_of_two_inputs(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


@scenario(one(4, 6))
def chain_of_writes_on_one_fresh_tensor(x):
    y = x + 1
    for i in range(20):
        y.mul_(1.1).sub_(0.1)
    return y


@scenario(one(3, 5))
def read_before_and_after_a_write(x):
    before = x * 2
    v = x[1]
    x.add_(1)
    return before, v * 2, x[1] - v


@scenario(one(3, 4))
def detach_then_write(x):
    y = x * 1
    y.detach().add_(1)
    x.detach().mul_(2)
    return y


@scenario(one(3, 4))
def write_under_no_grad(x):
    with torch.no_grad():
        x.mul_(2)
    return x + 1


@scenario(lambda: (randn(3, 4), torch.tensor([[0, 1, 2, 0]]), randn(1, 4)))
def scatter_in_place(x, index, src):
    x.scatter_(0, index, src)
    x.scatter_add_(0, index, src)
    return x.t().index_add_(0, torch.tensor([0, 2]), x.t()[:2].clone())


@scenario(lambda: (randn(5, 3), torch.tensor([4, 0]), randn(2, 3)))
def index_copy_and_index_fill_in_place(x, index, src):
    x.index_copy_(0, index, src)
    x.t().index_fill_(1, index, 2.0)


@scenario(lambda: (randn(5, 3), torch.rand(5, 1) > 0.5))
def masked_fill_in_place_broadcasts(x, mask):
    x.masked_fill_(mask, -1)
    return x.t().masked_fill(mask.t(), 0)


@scenario(one(4, 4))
def triangle_and_cumulative_in_place(x):
    x.tril_()
    return x.t().cumsum_(0)


@scenario(lambda: (randn(2, 3), randn(2, 4), randn(4, 3)))
def matrix_product_in_place(c, a, b):
    c.addmm_(a, b, beta=0.5)
    return c.t().addmm(b.t(), a.t())


@scenario(one(4))
def zero_in_place_of_an_empty_slice(x):
    x[2:2].zero_()
    x[4:].add_(1)
    return x[2:2]


# Functionalization: every view, written on an input and on a fresh tensor ----------------------------------------------

VIEWS = {
    "slice": "x[1:3]", "slice_with_step": "x[:, ::2]", "slice_from_the_end": "x[-2:]", "select": "x[2]", "select_last": "x.select(1, -1)",
    "narrow": "x.narrow(1, 1, 3)", "split": "x.split(2)[1]", "chunk": "x.chunk(2, 1)[0]", "unbind": "x.unbind(1)[3]",
    "permute": "x.permute(1, 0)[2:]", "transpose": "x.transpose(0, 1)[1]", "t": "x.t()[:, 1]", "view": "x.view(3, 8)[1]",
    "view_minus_one": "x.view(-1)[5:9]", "reshape": "x.reshape(2, 12)[1, 3:]", "reshape_that_copies": "x.t().reshape(24)[2:5]",
    "squeeze": "x[:, :1].squeeze(1)", "unsqueeze": "x.unsqueeze(1)[1]", "diagonal": "x.diagonal(1)", "as_strided": "x.as_strided((2, 3), (7, 2), 4)",
    "unfold": "x.unfold(1, 2, 3)[:, 1]", "unfold_with_gaps": "x.unfold(0, 1, 2)", "view_other_dtype": "x.view(torch.int32)[1]",
    "view_narrower_dtype": "x.view(torch.int16)[:, 1::2]", "flatten": "x.flatten()[7:]", "unflatten": "x.unflatten(1, (2, 3))[:, 1]", "movedim": "x.movedim(0, 1)[0]",
    "detach": "x.detach()[3]", "expand_of_one": "x[:1, :1].expand(1, 1)", "alias_of_alias": "x[:][:, :][1:]", "nested": "x[1:].t()[2:].unsqueeze(0)[0, 1]",
    "swapaxes": "x.swapaxes(0, 1)[4]", "tensor_split": "x.tensor_split(3)[1]", "view_as": "x.view_as(x.t().contiguous())[1]", "mT": "x.mT[0]",
    "view_as_complex_and_back": "torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2)))[1]", "real_of_complex": "torch.view_as_complex(x.view(4, 3, 2)).real[1]",
    "imag_of_complex": "torch.view_as_complex(x.view(4, 3, 2)).imag[:, 1]", "conj_of_complex": "torch.view_as_complex(x.view(4, 3, 2)).conj().imag[2]",
}
WRITES = ["v.add_(2)", "v.mul_(3)", "v.fill_(4)", "v.copy_(v + v)", "v.zero_()"]


def make_view_scenarios():
    for n, (name, view) in enumerate(VIEWS.items()):
        write = WRITES[n % len(WRITES)]
        for where, start, end in (("input", "", "v + 1"), ("fresh", "    x = x * 1\n", "x, v")):
            full = f"view_{name}_written_on_{where}"
            source = f"def {full}(x):\n{start}    v = {view}\n    {write}\n    return {end}\n"
            if "conj" in name:
                source = source.replace("return x, v", "return x")
            space = {"torch": torch}
            exec(compile(source, "make_scenarios.py", "exec"), space)
            space[full].source = source
            scenario(one(4, 6))(space[full])


make_view_scenarios()

# Wrappers: data ------------------------------------------------------------------------------------------------------


@scenario(one(3, 4))
def input_written(a):
    a.mul_(2)
    return a.sum()


@scenario(one(3, 4))
def input_written_and_returned(a):
    a.mul_(2)
    return a


@scenario(lambda: (randn(3), randn(4), randn(5)))
def two_of_three_inputs_written(a, b, c):
    a.mul_(2)
    c.add_(b.sum())
    return a.sum() + b


@scenario(two(3))
def output_is_an_input(a, b):
    return b, a + b


@scenario(lambda: (randn(4, 3).t(), randn(8, 8)[1::2, ::3]))
def non_contiguous_inputs_written(a, b):
    a.add_(1)
    b.mul_(2)
    return a[0] + b[0, 0]


@scenario(one(3, 1, 4), one(5, 1, 4), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=9)}})
def squeezed_clone_written(x):
    y = x.clone().squeeze(1)
    y.add_(1)
    x.add_(y.unsqueeze(1))
    return y


@scenario(lambda: (randn(3), None, 2, 0.5, True))
def none_and_numbers_among_the_inputs(a, b, n, s, flag):
    a.mul_(n)
    return a * s, None, n, flag


@scenario(lambda: ([randn(3), randn(4)], {"k": randn(5), "n": 3}))
def lists_and_dictionaries_of_inputs(pair, named):
    pair[0].add_(1)
    named["k"].mul_(named["n"])
    return {"sum": pair[1] + 1, "k": named["k"]}, [pair[0]]


@scenario(lambda: (torch.zeros(0, 3), randn(0)))
def empty_inputs_written(a, b):
    a.add_(1)
    return a, b * 2


@scenario(one(3))
def written_back_to_what_it_was(a):
    a.neg_()
    a.neg_()


@scenario(two(3))
def nothing_returned(a, b):
    a.copy_(b)


# Wrappers: geometry --------------------------------------------------------------------------------------------------


@scenario(one(3, 4))
def transposed_in_place(a):
    a.t_()
    return a + 1


@scenario(one(3, 4))
def transposed_then_written(a):
    a.t_()
    a[0].mul_(2)
    return a.sum()


@scenario(one(3, 4))
def transposed_written_view_returned(a):
    a.t_()
    a[0].mul_(2)
    return a[1:]


@scenario(two(3, 4))
def transposed_views_of_both_returned(a, b):
    a.transpose_(0, 1)
    return a[1], b[1]


@scenario(lambda: (randn(3, 4), randn(4), randn(2, 5)))
def one_written_one_transposed_views_of_all_returned(a, b, c):
    b.add_(1)
    c.t_()
    return a.view(-1), b[1:], c[2]


@scenario(one(3, 4))
def transposed_twice_is_no_change(a):
    a.t_()
    a.t_()
    return a * 2


@scenario(one(3, 1, 4))
def squeezed_and_unsqueezed_in_place(a):
    a.squeeze_(1)
    a.unsqueeze_(0)
    a[0, 1].zero_()


@scenario(one(4, 6))
def as_strided_in_place(a):
    a.as_strided_((2, 3), (1, 6), 2)
    a.add_(1)
    return a


@scenario(one(3, 4))
def written_then_transposed_and_returned(a):
    a.mul_(2)
    return a.t_()


@scenario(one(2, 3, 4))
def swapaxes_in_place_view_taken_before(a):
    v = a[1]
    a.swapaxes_(0, 2)
    v.add_(1)
    return v, a[0]


# Wrappers: set_ and resize_ ------------------------------------------------------------------------------------------


@scenario(one(3, 4))
def set_to_a_new_tensor(a):
    a.set_(torch.ones(2, 5) * 3)
    return a + 1


@scenario(one(12))
def set_to_a_slice_of_a_new_tensor_then_written(a):
    b = torch.arange(10.0)
    a.set_(b[2:6])
    a.mul_(2)
    return b


@scenario(two(3, 4))
def set_to_another_input_which_is_written(a, b):
    a.set_(b)
    b.add_(1)
    return a * 2


@scenario(two(3, 4))
def set_to_another_input_then_written(a, b):
    a.set_(b)
    a.add_(1)


@scenario(two(3, 4))
def set_to_a_view_of_another_input(a, b):
    a.set_(b[1])
    return a


@scenario(two(3, 4))
def set_and_set_back_is_no_change(a, b):
    c = a.detach()
    a.set_(b)
    a.set_(c)
    return a + b


@scenario(two(3, 4))
def written_then_set(a, b):
    a.add_(1)
    c = a.detach()
    a.set_(b)
    return c


@scenario(two(3, 4))
def old_view_written_after_set(a, b):
    v = a.view(-1)
    a.set_(b)
    v.add_(1)
    return v


@scenario(two(3, 4))
def swapped_by_set(a, b):
    c, d = a.detach(), b.detach()
    a.set_(d)
    b.set_(c)
    a.add_(1)


@scenario(one(8))
def resized_to_nothing(a):
    b = a * 2
    a.resize_(0)
    return b


@scenario(one(8))
def view_taken_before_resize(a):
    v = a[2:4]
    a.resize_(3)
    a.add_(1)
    return v


@scenario(one(1, 4))
def resized_larger_and_filled(a):
    a.resize_(3, 4)
    a.fill_(2)
    return a[1:]


# Wrappers: outputs that share memory with inputs ---------------------------------------------------------------------


@scenario(one(3, 4))
def view_of_an_input_returned(a):
    return a[1:, ::2]


@scenario(lambda: (randn(3), randn(4), randn(5)))
def two_written_views_of_others_returned(a, b, c):
    a.add_(1)
    c.mul_(2)
    return b[1:], c[2:]


@scenario(one(3, 4))
def written_and_a_view_returned(a):
    a.mul_(2)
    return a.view(-1)


@scenario(lambda: (randn(3), randn(3, 4), randn(5)))
def one_transposed_one_written_diagonal_returned(a, b, c):
    b.t_()
    c.add_(a.sum())
    return b.diagonal()


@scenario(slices(12, (0, 6), (3, 6)), example=two(6))
def views_of_overlapping_inputs_returned(a, b):
    return a[1:], b.view(2, 3)


@scenario(one(3, 4))
def detached_written_both_returned(a):
    b = a.detach()
    b.add_(1)
    return a, b


@scenario(one(3, 4))
def unbind_of_an_input_returned(a):
    return a.unbind(0)


@scenario(one(3, 4))
def same_input_returned_twice(a):
    return a, a, a.view(3, 4)


@scenario(one(4, 6))
def every_view_of_an_input_returned(a):
    return a.t(), a.view(-1)[3:], a.unsqueeze(0), a[None, 2], a.expand(2, 4, 6), a.view(torch.int32), a.diagonal(), a.split(2)[1]


@scenario(one(3, 4))
def expanded_input_returned(a):
    return a[:1].expand(5, 4)


# Wrappers: outputs that share memory with each other -------------------------------------------------------------------


@scenario(one(3, 4))
def fresh_and_its_view_returned(a):
    b = a + 1
    return b, b[1]


@scenario(one(3, 4))
def view_of_a_fresh_returned(a):
    return (a + 1)[1:]


@scenario(one(3, 4))
def view_of_a_fresh_after_a_write(a):
    b = a + 1
    v = b[:, 1]
    b.mul_(2)
    return v


@scenario(one(3, 4))
def fresh_view_fresh(a):
    b = a + 1
    return b, b.t(), b


@scenario(one(3, 4))
def two_views_of_a_fresh(a):
    b = a * 2
    return b[0], b.view(-1)[2:6]


@scenario(one(3, 4))
def base_before_view_returned(a):
    b = a * 2
    return b.view(12), b


@scenario(two(3, 4))
def views_of_two_freshes_mixed(a, b):
    c, d = a * 2, b * 3
    return c[0], d, c, d[1], c.view(-1)


@scenario(one(3, 4))
def several_results_views_returned(a):
    b = a * 2
    x, y = b.split([1, 2])
    p, q, r = b.unbind(0)
    return x, y, q


@scenario(two(3, 4))
def outputs_of_every_kind(a, b):
    a.mul_(2)
    c = a + b
    c[1].add_(1)
    return a, b[1], c, c.t(), a.sum(), a.view(-1)[2:], (b * 2)[0], 3, None


@scenario(one(3, 4))
def overlapping_views_of_a_fresh_after_writes(a):
    b = a.view(-1) * 2
    v, w = b[:7], b[4:]
    v.add_(1)
    w.mul_(3)
    return w, v


# Wrappers: arguments that share memory -------------------------------------------------------------------------------

OVERLAP = slices(12, (0, 8), (4, 8))
DISJOINT = slices(16, (0, 8), (8, 8))


@scenario(two(8), OVERLAP, DISJOINT, slices(8, (0, 8), (0, 8)), example=two(8))
def one_written_of_two_that_may_overlap(a, b):
    a.mul_(2)
    return a + b


@scenario(two(8), OVERLAP, DISJOINT, example=two(8))
def both_written_of_two_that_may_overlap(a, b):
    a.mul_(2)
    b.add_(a.flip(0))
    return a.sum()


@scenario(two(8), OVERLAP, DISJOINT, example=OVERLAP)
def exported_with_overlapping_arguments(a, b):
    a.mul_(2)
    b.add_(1)
    return a - b


@scenario(two(2, 4), lambda: tuple(over(o, (2, 4), (4, 1), torch.arange(20.0)) for o in (0, 4)), boxes(20, (0, (2, 4), (4, 1)), (4, (2, 4), (4, 1))),
          example=two(2, 4))
def one_written_one_transposed_overlapping(a, b):
    a.mul_(2)
    b.t_()
    return b + 1


@scenario(boxes(60, (0, (4, 4), (9, 1)), (9, (4, 4), (9, 1))), boxes(60, (0, (4, 4), (9, 1)), (4, (4, 4), (9, 1))), example=two(4, 4))
def boxes_of_one_stride(a, b):
    a.mul_(2)
    b.add_(1)
    return a - b


@scenario(boxes(40, (0, (5,), (2,)), (1, (5,), (2,))), boxes(40, (0, (5,), (2,)), (4, (5,), (3,))), boxes(40, (0, (5,), (4,)), (2, (5,), (6,))),
          example=two(5))
def interleaved_arguments(a, b):
    a.copy_(b)
    b.mul_(2)
    return a[1:]


@scenario(slices(1000, (100, 9), (500, 9)), slices(1000, (100, 9), (104, 9)), example=two(9))
def two_slices_of_a_large_tensor(a, b):
    a.add_(1)
    b.mul_(2)


@scenario(slices(12, (2, 6), (0, 12)), example=lambda: (randn(6), randn(12)))
def second_argument_is_the_base_of_the_first(a, b):
    a.zero_()
    return b * 2


@scenario(slices(12, (0, 12), (2, 6)), example=lambda: (randn(12), randn(6)))
def base_written_view_returned(a, b):
    a.add_(1)
    return b[1:]


@scenario(lambda: (lambda base, b: (base[:6], b, base[3:9]))(randn(9), randn(4)), example=lambda: (randn(6), randn(4), randn(6)))
def first_and_third_share_third_written_view_returned(a, b, c):
    c.add_(b.sum())
    return c[2:], a * 2


@scenario(boxes(20, (0, (2, 4), (4, 1)), (4, (2, 4), (4, 1))), example=two(2, 4))
def only_transposed_of_two_that_overlap(a, b):
    a.t_()
    return b * 2


@scenario(lambda: (lambda p, q: (p[:4], q[0:8].view(2, 4), p[2:6], q[4:12].view(2, 4)))(randn(8), randn(12)),
          example=lambda: (randn(4), randn(2, 4), randn(4), randn(2, 4)))
def two_pairs_out_of_order(a, b, c, d):
    b.mul_(2)
    d.t_()
    return a + c, d[0]


@scenario(lambda: (lambda p: (p[:6], randn(4, 2), p[4:10]))(randn(12)), example=lambda: (randn(6), randn(4, 2), randn(6)))
def everything_at_once(a, b, c):
    c.mul_(2)
    b.t_()
    d = a + 1
    return d[0], d.view(2, 3), b[0, 1:], c


@scenario(OVERLAP, example=two(8))
def overlapping_written_and_equal_freshes_returned(a, b):
    a.add_(1)
    c = b * 2
    return c, c.view(2, 4), c


@scenario(lambda: (lambda p: (p[0:4], p[2:6], p[6:10], p[9:13], randn(4)))(randn(16)), example=lambda: tuple(randn(4) for _ in range(5)))
def chain_of_overlaps_in_components(a, b, c, d, e):
    a.add_(1)
    b.mul_(2)
    c.sub_(3)
    d.neg_()
    e.add_(a)


@scenario(lambda: (lambda p: (p, p.view(torch.int32)))(randn(6)), example=lambda: (randn(6), torch.zeros(6, dtype=torch.int32)))
def one_storage_two_dtypes(a, b):
    b.bitwise_and_(-65536)
    return a * 2


@scenario(lambda: (lambda p: (p[2:6], p[3:7]))(torch.arange(10)), example=lambda: (torch.arange(4), torch.arange(4)))
def overlapping_integers(a, b):
    a.add_(b.clone())
    b.mul_(2)


@scenario(lambda: (lambda p: (p, p.t()))(randn(4, 4)), example=two(4, 4))
def argument_and_its_transpose(a, b):
    a.copy_(b * 2)
    return b


@scenario(lambda: (lambda p: (p, p[2]))(randn(4, 5)), example=lambda: (randn(4, 5), randn(5)))
def matrix_and_its_row(m, row):
    m.sub_(row.clone())
    return row * 2


@scenario(slices(16, (4, 8), (4, 8)), lambda: (lambda p: (p[4:12], p[4:12]))(randn(16)), example=two(8))
def two_tensors_of_one_geometry(a, b):
    a.add_(1)
    b.resize_(4)
    return a, b


# Wrappers: duplicates ------------------------------------------------------------------------------------------------


@scenario(two(4), twice(4), example=two(4))
def duplicate_written(a, b):
    a.mul_(2)
    return a + b


@scenario(twice(4))  # such an export holds for duplicates only: PyTorch folds the two into one
def exported_with_duplicates(a, b):
    a.mul_(2)
    return a + b


@scenario(two(3, 4), twice(3, 4), example=two(3, 4))
def duplicate_transposed_twice(a, b):
    a.t_()
    b.t_()
    return a + b


@scenario(two(3, 4), twice(3, 4), example=two(3, 4))
def duplicate_written_in_part_and_returned(a, b):
    a[0].mul_(2)
    return b


@scenario(two(4), twice(4), example=two(4))
def duplicate_not_written(a, b):
    return a + b, a


@scenario(lambda: (lambda x, y: (x, y, x, y, x))(randn(3), randn(3)), lambda: tuple(randn(3) for _ in range(5)), example=lambda: tuple(randn(3) for _ in range(5)))
def duplicates_in_two_groups(a, b, c, d, e):
    a.add_(b)
    d.mul_(2)
    return c + e, b


@scenario(lambda: (lambda p: (p[:4], p[2:6], p[:4]))(randn(8)), example=lambda: (randn(4), randn(4), randn(4)))
def duplicate_and_overlap(a, b, c):
    b.add_(1)
    c.mul_(2)
    return a.clone()


@scenario(twice(3, 4), two(3, 4), example=two(3, 4))
def duplicate_set_and_written(a, b):
    a.set_(torch.full((2,), 3.0))
    return b + 1


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


scenario(one(6), lambda earlier: (earlier[0][1][0],), lambda earlier: (earlier[0][1][1],), earlier=True, example=one(6))(returned_buffer_passed_back)


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


scenario(one(2, 3, 4, 4), one(3, 3, 4, 4), example=one(2, 3, 4, 4), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=9)}}, train=True)(batch_norm_in_training)


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


@scenario(lambda: (torch.tensor(True), torch.tensor(False), randn(3)), lambda: (torch.tensor(False), torch.tensor(True), randn(3)),
          lambda: (torch.tensor(True), torch.tensor(True), randn(3)))
def cond_nested(p, q, x):

    def inner(x):
        return torch.cond(q, lambda x: x.exp(), lambda x: x - 1, (x,))

    return torch.cond(p, inner, lambda x: x.neg(), (x,))


@scenario(lambda: (torch.tensor(5), randn(3)), lambda: (torch.tensor(0), randn(3)))
def while_loop_carries_tensors(n, x):
    i, y = torch._higher_order_ops.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.5 + i), (torch.zeros((), dtype=torch.int64), x.clone()))
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


# What PyTorch refuses --------------------------------------------------------------------------------------------------


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


# -----------------------------------------------------------------------------------------------------------------------


def script_text(f, args):
    """TorchScript's graph of a function, its inputs named as the function's, with complete types."""
    graph = torch.jit.script(f).inlined_graph
    names = f.__code__.co_varnames[:f.__code__.co_argcount]
    inputs = list(graph.inputs())
    for value, name, arg in zip(inputs[-len(names):], names, args):
        value.setDebugName(name)
        if isinstance(arg, torch.Tensor):
            value.setType(torch._C.TensorType.create_from_tensor(arg))
    return re.sub(r"# /\S*/([^/\s]+)", r"# \1", str(graph))


def make(name):
    f, calls, example, script, options = SCENARIOS[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    options = dict(options)
    if options.pop("earlier", False):
        calls = [c() if c.__code__.co_argcount == 0 else c for c in calls]
    else:
        calls = [c() for c in calls]
    if example is not None:
        options["example"] = example()
    train = options.pop("train", False)
    module = f().train(train) if isinstance(f, type) else f
    if script:
        options["text"] = script_text(f, calls[0])
    if hasattr(f, "source"):
        options["source"] = f.source
    return record(module, calls, os.path.join(OUT, name), **options)


def main(names):
    failed = 0
    for path in glob.glob(os.path.join(OUT, "*")) if not names else []:
        if path.endswith((".pt2", ".ir", ".safetensors")):
            os.remove(path)
    for name in names or SCENARIOS:
        try:
            for line in make(name):
                print(f"{name}: PyTorch's export differs: {line}")
        except Exception as e:  # told, counted, and the rest is made
            failed += 1
            print(f"{name}: {type(e).__name__}: {str(e)[:300]}")
    print(f"{len(names or SCENARIOS) - failed} scenarios, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
