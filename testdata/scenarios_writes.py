"""Scenarios for make_scenarios.py: writes, mostly through views, to arguments and to fresh tensors."""

import torch
from torch.nn import functional as F

from scenario_kit import one, randn, scenario, two

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
    "slice": "x[1:3]",
    "slice_with_step": "x[:, ::2]",
    "slice_from_the_end": "x[-2:]",
    "select": "x[2]",
    "select_last": "x.select(1, -1)",
    "narrow": "x.narrow(1, 1, 3)",
    "split": "x.split(2)[1]",
    "chunk": "x.chunk(2, 1)[0]",
    "unbind": "x.unbind(1)[3]",
    "permute": "x.permute(1, 0)[2:]",
    "transpose": "x.transpose(0, 1)[1]",
    "t": "x.t()[:, 1]",
    "view": "x.view(3, 8)[1]",
    "view_minus_one": "x.view(-1)[5:9]",
    "reshape": "x.reshape(2, 12)[1, 3:]",
    "reshape_that_copies": "x.t().reshape(24)[2:5]",
    "squeeze": "x[:, :1].squeeze(1)",
    "unsqueeze": "x.unsqueeze(1)[1]",
    "diagonal": "x.diagonal(1)",
    "as_strided": "x.as_strided((2, 3), (7, 2), 4)",
    "unfold": "x.unfold(1, 2, 3)[:, 1]",
    "unfold_with_gaps": "x.unfold(0, 1, 2)",
    "view_other_dtype": "x.view(torch.int32)[1]",
    "view_narrower_dtype": "x.view(torch.int16)[:, 1::2]",
    "flatten": "x.flatten()[7:]",
    "unflatten": "x.unflatten(1, (2, 3))[:, 1]",
    "movedim": "x.movedim(0, 1)[0]",
    "detach": "x.detach()[3]",
    "expand_of_one": "x[:1, :1].expand(1, 1)",
    "alias_of_alias": "x[:][:, :][1:]",
    "nested": "x[1:].t()[2:].unsqueeze(0)[0, 1]",
    "swapaxes": "x.swapaxes(0, 1)[4]",
    "tensor_split": "x.tensor_split(3)[1]",
    "view_as": "x.view_as(x.t().contiguous())[1]",
    "mT": "x.mT[0]",
    "view_as_complex_and_back": "torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2)))[1]",
    "real_of_complex": "torch.view_as_complex(x.view(4, 3, 2)).real[1]",
    "imag_of_complex": "torch.view_as_complex(x.view(4, 3, 2)).imag[:, 1]",
    "conj_of_complex": "torch.view_as_complex(x.view(4, 3, 2)).conj().imag[2]",
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
            exec(compile(source, "scenarios_writes.py", "exec"), space)
            space[full].source = source
            scenario(one(4, 6))(space[full])


make_view_scenarios()
