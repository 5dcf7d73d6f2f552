"""Scenarios for make_scenarios.py: what the caller sees: arguments, their geometry, outputs, shared memory."""

import torch

from scenario_kit import boxes, one, over, randn, scenario, slices, twice, two

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
    return a.t(), a.view(-1)[3:], a.unsqueeze(0), a[None,
                                                    2], a.expand(2, 4,
                                                                 6), a.view(torch.int32), a.diagonal(), a.split(2)[1]


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


@scenario(two(2, 4),
          lambda: tuple(over(o, (2, 4), (4, 1), torch.arange(20.0)) for o in (0, 4)),
          boxes(20, (0, (2, 4), (4, 1)), (4, (2, 4), (4, 1))),
          example=two(2, 4))
def one_written_one_transposed_overlapping(a, b):
    a.mul_(2)
    b.t_()
    return b + 1


@scenario(boxes(60, (0, (4, 4), (9, 1)), (9, (4, 4), (9, 1))),
          boxes(60, (0, (4, 4), (9, 1)), (4, (4, 4), (9, 1))),
          example=two(4, 4))
def boxes_of_one_stride(a, b):
    a.mul_(2)
    b.add_(1)
    return a - b


@scenario(boxes(40, (0, (5,), (2,)), (1, (5,), (2,))),
          boxes(40, (0, (5,), (2,)), (4, (5,), (3,))),
          boxes(40, (0, (5,), (4,)), (2, (5,), (6,))),
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


@scenario(lambda: (lambda base, b: (base[:6], b, base[3:9]))(randn(9), randn(4)),
          example=lambda: (randn(6), randn(4), randn(6)))
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


@scenario(lambda: (lambda p: (p[:6], randn(4, 2), p[4:10]))(randn(12)),
          example=lambda: (randn(6), randn(4, 2), randn(6)))
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


@scenario(lambda: (lambda p: (p[0:4], p[2:6], p[6:10], p[9:13], randn(4)))(randn(16)),
          example=lambda: tuple(randn(4) for _ in range(5)))
def chain_of_overlaps_in_components(a, b, c, d, e):
    a.add_(1)
    b.mul_(2)
    c.sub_(3)
    d.neg_()
    e.add_(a)


@scenario(lambda: (lambda p: (p, p.view(torch.int32)))(randn(6)),
          example=lambda: (randn(6), torch.zeros(6, dtype=torch.int32)))
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


@scenario(lambda: (lambda x, y: (x, y, x, y, x))(randn(3), randn(3)),
          lambda: tuple(randn(3) for _ in range(5)),
          example=lambda: tuple(randn(3) for _ in range(5)))
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
