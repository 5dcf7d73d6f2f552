"""Calls for make_op_answers.py: indexing, views, factories, writes in place, Python's scalars."""

import torch

from op_table import BF16, BITS, BOOL, C64, EQUAL, F32, F64, GENERATOR, I16
from op_table import I32, I64, U8, add, has, ints, rand, spaced, transposed


def indexing():
    for dtype in (F32, BF16, I64, U8, BOOL):
        x = rand(4, 5, dtype=dtype, low=0, high=9)
        i, j = torch.tensor([2, 0, -1]), torch.tensor([[1, 3, -2], [0, 0, 2]])
        mask = torch.tensor([True, False, True, True])
        wide = torch.rand(4, 5, generator=GENERATOR) < 0.5
        places = [[i], [None, i], [i, i], [j], [None, j], [j, i], [mask], [wide], [mask, None],
                  [None, torch.tensor([], dtype=I64)], [i.to(I32)], [torch.tensor(2)], [i.view(3, 1), i]]
        for index in places:
            add("index.Tensor", x, index, compare=BITS)
            add("index.Tensor", transposed(x), index, compare=BITS) if dtype == F32 else None
            got = torch.ops.aten.index.Tensor(x, index)
            new = rand(*got.shape, dtype=dtype, low=0, high=9)
            shape_one = new.flatten()[:1].reshape(()) if new.numel() else rand(dtype=dtype)
            add("index_put", x, index, shape_one, compare=BITS)
            if len({*index_cells(x, index)}) == got.numel():
                add("index_put", x, index, new, compare=BITS)
                add("index_put_", spaced(x), index, new, compare=BITS)
            if dtype in (F32, I64):
                add("index_put", x, index, new, True)
        row = torch.tensor([3, 0, 0])
        add("index_select", x, 0, row, compare=BITS)
        add("index_select", transposed(x), 1, row, compare=BITS)
        add("index_fill.int_Scalar", x, 1, row, 1, compare=BITS)
        add("index_fill_.int_Scalar", transposed(x), 0, row, 1, compare=BITS)
        add("index_copy", x, 0, torch.tensor([3, 1]), rand(2, 5, dtype=dtype, low=0, high=9), compare=BITS)
        add("index_copy_", spaced(x), 1, torch.tensor([3, 1]), rand(4, 2, dtype=dtype, low=0, high=9), compare=BITS)
        g = ints(3, 5, high=4)
        add("gather", x, 0, g, compare=BITS)
        add("gather", spaced(x), 1, ints(2, 7, high=5), compare=BITS)
        once = torch.stack([torch.randperm(4, generator=GENERATOR) for _ in range(5)], 1)[:3]
        add("scatter.src", x, 0, once, rand(3, 5, dtype=dtype, low=0, high=9), compare=BITS)
        add("scatter_.src", transposed(x), 0, once, rand(4, 5, dtype=dtype, low=0, high=9), compare=BITS)
        add("scatter.value", x, 0, g, 1, compare=BITS)
        add("scatter_.value", spaced(x), 0, g, 1, compare=BITS)
        add("take", x, torch.tensor([0, 7, -1, 19]), compare=BITS)
        add("put", x, torch.tensor([0, 7, -1]), rand(3, dtype=dtype, low=0, high=9), compare=BITS)
        add("take_along_dim", x, torch.tensor([[1, 4], [0, 0], [2, 2], [3, 1]]), 1, compare=BITS)
        if dtype != BOOL:
            add("index_add", x, 0, row, rand(3, 5, dtype=dtype, low=0, high=9), alpha=2)
            add("index_add_", transposed(x), 1, row, rand(4, 3, dtype=dtype, low=0, high=9))
            add("scatter_add", x, 0, g, rand(3, 5, dtype=dtype, low=0, high=9))
            add("scatter_add_", spaced(x), 1, ints(4, 3, high=5), rand(4, 3, dtype=dtype, low=0, high=9))
            for reduce in ("sum", "prod", "mean", "amax", "amin"):
                for include in (True, False):
                    add("scatter_reduce.two",
                        x,
                        0,
                        g,
                        rand(3, 5, dtype=dtype, low=1, high=4),
                        reduce,
                        include_self=include)
            add("scatter.reduce", x, 0, once, rand(3, 5, dtype=dtype, low=1, high=4), reduce="multiply")
            add("index_reduce", x, 0, row, rand(3, 5, dtype=dtype, low=1, high=4), "amax")
        add("embedding", x, torch.tensor([[0, 3], [1, 1]]), compare=BITS)
        add("tril", x, -1, compare=BITS)
        add("triu", transposed(x), 1, compare=BITS)
        add("tril_", spaced(x), 0, compare=BITS)
        add("roll", x, [1, -2], [0, 1], compare=BITS)
        add("roll", x, [3], compare=BITS)
        add("rot90", x, 1, [0, 1], compare=BITS)
        add("flip", transposed(x), [0, 1], compare=BITS)
        add("repeat", x[:2, :2], [2, 1, 3], compare=BITS)
        add("repeat_interleave.self_int", x, 2, 1, compare=BITS)
        add("repeat_interleave.self_Tensor", x, torch.tensor([0, 1, 2, 1]), 0, compare=BITS)
        add("tile", x[:2, :2], [2, 2], compare=BITS)
        add("cat", [x, x[:1], transposed(x)], compare=BITS)
        add("cat", [x[:, :2], spaced(x)], 1, compare=BITS)
        add("cat", [torch.zeros(0, dtype=dtype), x], compare=BITS)
        add("cat", [x, rand(1, 5)], compare=BITS)
        add("stack", [x, spaced(x)], 1, compare=BITS)
        for name in ("hstack", "vstack", "dstack", "column_stack"):
            add(name, [x, x], compare=BITS)
        add("constant_pad_nd", x, [1, 2, 0, 1], 1, compare=BITS)
        add("constant_pad_nd", x, [-1, 1], compare=BITS)
        add("pad", x, [2, 0], "constant", 1.0, compare=BITS)
        add("slice_scatter", x, rand(2, 5, dtype=dtype), 0, 0, 4, 2, compare=BITS)
        add("select_scatter", transposed(x), rand(4, dtype=dtype), 1, -2, compare=BITS)
        add("diagonal_scatter", x, rand(4, dtype=dtype), 1, compare=BITS)
        add("as_strided_scatter", x, rand(2, 3, dtype=dtype), [2, 3], [5, 1], 3, compare=BITS)
        add("diag_embed", x, compare=BITS)
        add("diag", x, compare=BITS)
        add("diagonal_copy", x, compare=BITS)
        add("meshgrid.indexing", [x[0], x[1]], indexing="ij", compare=BITS)
        add("cartesian_prod", [x[0], x[1]], compare=BITS)
        add("block_diag", [x, x], compare=BITS)
        add("argwhere", x, compare=BITS)
        add("cat.out", [x, x], out=torch.empty(0, dtype=dtype), compare=BITS)
        add("stack.out", [x, x], out=torch.empty(0, dtype=dtype), compare=BITS)
        add("gather.out", x, 0, g, out=torch.empty(0, dtype=dtype), compare=BITS)
        add("index_select.out", x, 0, row, out=torch.empty(0, dtype=dtype), compare=BITS)
    for name, pad in (("reflection_pad1d", [2, 1]), ("replication_pad1d", [2, 3]), ("reflection_pad2d", [2, 1, 1, 0]),
                      ("replication_pad2d", [2, 1, 0, 3])):
        add(name, rand(2, 3, 4) if "1d" in name else rand(1, 2, 3, 4), pad, compare=BITS)
    add("pad", rand(2, 3, 4), [1, 2], "circular", compare=BITS)
    add("one_hot", ints(3, high=4), 5, compare=BITS)
    add("index_put_", torch.zeros(4), [torch.tensor([1, 1, 3])], torch.ones(3), True)
    add("_index_put_impl_", torch.zeros(4), [torch.tensor([0, 3])], torch.ones(2), False, compare=BITS)
    add("index_put", rand(2, 3, 4), [None, torch.tensor([0, 2]), None], rand(4), compare=BITS)
    add("index_put", rand(2, 3, 4), [torch.tensor([0, 1]), None, torch.tensor([1, 2])], rand(2, 3), compare=BITS)
    add("index.Tensor", rand(2, 3, 4), [torch.tensor([0, 1]), None, torch.tensor([1, 2])], compare=BITS)
    add("index.Tensor", rand(2, 3, 4), [None, torch.tensor([[0, 1]]), torch.tensor([1, 2])], compare=BITS)
    add("isin.Tensor_Tensor", ints(6), ints(3), compare=BITS)
    add("unsafe_index.Tensor" if has("unsafe_index.Tensor") else "_unsafe_index.Tensor",
        rand(3, 4), [torch.tensor([1, 0])],
        compare=BITS)


def index_cells(x, index):
    numbered = torch.arange(x.numel()).view(x.shape)
    return torch.ops.aten.index.Tensor(numbered, index).flatten().tolist()


def views():
    for x in (rand(2, 3, 4), transposed(rand(2, 3, 4)), spaced(rand(2, 3, 4))):
        for name, args in (("view", ([6, 4],)), ("view", ([2, -1],)), ("reshape", ([4, 6],)), ("reshape", ([24],)),
                           ("reshape", ([2, 3, 2, 2],)), ("flatten.using_ints", ()), ("flatten.using_ints", (1, 2)),
                           ("unflatten.int", (2, [2, -1])), ("permute", ([2, 0, 1],)), ("transpose.int", (0, 2)),
                           ("swapaxes", (0, 1)), ("swapdims", (0, -1)), ("movedim.int", (0, 2)), ("moveaxis.int", (2,
                                                                                                                   0)),
                           ("movedim.intlist", ([0, 1], [2, 0])), ("mT", ()), ("adjoint", ()), ("unsqueeze", (1,)),
                           ("unsqueeze", (-1,)), ("squeeze", ()), ("squeeze.dim", (0,)), ("squeeze.dims", ([0, 1],)),
                           ("expand", ([5, 2, 3, 4],)), ("expand", ([-1, 3, -1],)), ("slice.Tensor", (2, 1, 3)),
                           ("slice.Tensor", (2, 0, 9223372036854775807, 2)), ("slice.Tensor",
                                                                              (1, -2, -1)), ("slice.Tensor", (0, 5, 9)),
                           ("slice.Tensor", (0, 1, 0)), ("slice.Tensor", (2, None, None, 3)), ("select.int", (1, 2)),
                           ("select.int", (0, -1)), ("narrow", (2, 1, 2)), ("split.Tensor", (2, 2)),
                           ("split.Tensor", (3, 2)), ("split_with_sizes", ([1, 3], 2)), ("split.sizes", ([
                               1, 2
                           ], 1)), ("chunk", (3, 2)), ("tensor_split.sections", (3, 2)), ("tensor_split.indices", ([
                               1, 2
                           ], 1)), ("unbind.int", (1,)), ("diagonal", (0, 0, 1)), ("diagonal", (1, 1, 2)), ("diagonal",
                                                                                                            (-1, 0, 2)),
                           ("as_strided", ([2, 2], [3, 1], 4)), ("as_strided", ([3], [1])), ("unfold", (2, 3, 1)),
                           ("unfold", (2, 2, 2)), ("alias", ()), ("detach", ()), ("view_as", (torch.zeros(
                               6, 4),)), ("reshape_as", (torch.zeros(6, 4),)), ("expand_as", (torch.zeros(
                                   5, 2, 3, 4),)), ("contiguous", ()), ("clone", ()), ("ravel", ()),
                           ("hsplit.int", (3,)), ("numpy_T", ()), ("_unsafe_view", ([6, 4],)), ("_reshape_alias", ([
                               6, 4
                           ], [4, 1])), ("view.dtype", (I32,)), ("view.dtype", (I16,)), ("view.dtype", (F64,)),
                           ("lift_fresh", ()), ("lift_fresh_copy", ()), ("detach_copy", ()), ("permute_copy", ([
                               2, 0, 1
                           ],)), ("atleast_1d",
                                  ()), ("broadcast_to", ([2, 2, 3, 4],)), ("view_copy", ([6, 4],)), ("expand_copy", ([
                                      5, 2, 3, 4
                                  ],)), ("conj", ()), ("resolve_conj", ()), ("real", ()), ("_conj", ()), ("t_copy", ()),
                           ("slice_copy.Tensor", (1, 0, 2)), ("select_copy.int", (1, 0)), ("unfold_copy", (2, 2, 1)),
                           ("positive", ()), ("squeeze_copy", ()), ("unsqueeze_copy", (0,)), ("split_copy.Tensor",
                                                                                              (1,)), ("unbind_copy.int",
                                                                                                      ()), ("_neg_view",
                                                                                                            ())):
            if name in ("_conj", "_neg_view") and name == "_neg_view":
                continue  # a table cannot say a negative bit
            add(name, x, *args, compare=BITS)
        for format in (torch.contiguous_format, torch.preserve_format):
            add("clone", x, memory_format=format, compare=BITS)
    x = rand(3, 4)
    for name, args in (("t", ()), ("T", ()), ("numpy_T", ()), ("diagonal", ()), ("view.dtype", (U8,)),
                       ("linalg_diagonal", ())):
        add(name, x, *args, compare=BITS)
        add(name, transposed(x), *args, compare=BITS)
    add("t", x[0], compare=BITS)
    for name, args in (("squeeze", ()), ("squeeze.dim", (1,)), ("squeeze.dims", ([0, 2],)), ("expand", ([3, 4, 5],)),
                       ("view", ([3, 1, 1],))):
        add(name, rand(3, 1, 1) if name != "squeeze.dims" else rand(1, 3, 1), *args, compare=BITS) if name != "expand" else \
            add(name, rand(3, 1, 1), *args, compare=BITS)
    add("view", rand(0, 3), [3, 0], compare=BITS)
    add("reshape", rand(0, 3), [0, -1] if False else [0], compare=BITS)
    add("expand", rand(1), [0], compare=BITS)
    add("unbind.int", rand(0, 3), compare=BITS)
    add("view_as_complex", rand(3, 2), compare=BITS)
    add("view_as_real", rand(3, dtype=C64), compare=BITS)
    add("real", rand(3, dtype=C64), compare=BITS)
    add("imag", rand(3, dtype=C64), compare=BITS)
    add("complex", rand(3), rand(3), compare=BITS)
    add("polar", rand(3), rand(3))
    add("conj_physical", rand(3, dtype=C64), compare=BITS)
    add("view.dtype", ints(3, 4), F64, compare=BITS)
    add("view.dtype", rand(3, 4, dtype=BF16), I16, compare=BITS)
    images = rand(2, 3, 4, 5)
    last = images.contiguous(memory_format=torch.channels_last)
    add("contiguous", images, memory_format=torch.channels_last, compare=BITS)
    add("contiguous", last, compare=BITS)
    add("contiguous", last, memory_format=torch.channels_last, compare=BITS)
    add("clone", last, memory_format=torch.preserve_format, compare=BITS)
    add("clone", images, memory_format=torch.channels_last, compare=BITS)
    add("clone", rand(4).expand(3, 4), compare=BITS)
    add("clone", rand(5, 4)[:, ::2], compare=BITS)
    add("add.Tensor", last, last, compare=BITS)
    add("add.Tensor", last, images, compare=BITS)
    add("add.Tensor", images, last, compare=BITS)
    add("add.Tensor", images, last[:, :, :1, :1], compare=BITS)
    add("relu", last, compare=EQUAL)
    add("relu", images.permute(1, 3, 0, 2), compare=EQUAL)
    add("cat", [last, last], 1, compare=BITS)
    add("zeros_like", last, compare=BITS)
    add("_to_copy", last, dtype=F64, compare=BITS)
    add("_to_copy", images, memory_format=torch.channels_last, compare=BITS)
    add("add.Tensor", rand(4, 3).t(), rand(3, 4), compare=BITS)
    add("add.Tensor", rand(4, 3).t(), rand(4, 3).t(), compare=BITS)
    add("add.Tensor", rand(4).expand(3, 4), rand(4).expand(3, 4), compare=BITS)
    add("add.Tensor", rand(6, 3)[::2].t(), rand(1), compare=BITS)
    add("sum.dim_IntList", last, [1])
    add("mean.dim", last, [2, 3], True)
    add("softmax.int", last, 1)
    add("max_pool2d", last, [2, 2], compare=BITS)
    add("batch_norm", last, rand(3), rand(3), rand(3), rand(3, low=0.5), False, 0.1, 1e-5, False)


def factories():
    for dtype in (F32, F64, BF16, I64, U8, BOOL):
        for name, args in (("zeros", ([2, 3],)), ("ones", ([2, 3],)), ("full", ([2, 2], 1)), ("scalar_tensor", (1,)),
                           ("eye", (3,)), ("eye.m", (2, 4))):
            add(name, *args, dtype=dtype, compare=BITS)
        x = rand(2, 3, dtype=dtype)
        for t in (x, transposed(x), spaced(x)):
            for name, args in (("zeros_like", ()), ("ones_like", ()), ("full_like", (1,)), ("new_zeros", ([2, 2],)),
                               ("new_ones", ([4],)), ("new_full", ([2], 1))):
                add(name, t, *args, compare=BITS)
    add("zeros_like", rand(2), dtype=I64, compare=BITS)
    add("full", [2], 2.5, compare=BITS)
    add("full", [2], 2, compare=BITS)
    add("full", [2], True, compare=BITS)
    add("full", [0, 2], 1.0, compare=BITS)
    add("full_like", ints(2), 3.7, compare=BITS)
    add("zeros", [], compare=BITS)
    for args in ((5,), (5.0,), (0,), (2.5,)):
        add("arange", *args, compare=BITS)
    for args in ((1, 5), (1.5, 4.0), (-2, 2)):
        add("arange.start", *args, compare=BITS)
    for args in ((1, 10, 3), (5, 0, -2), (0.0, 1.0, 0.25), (0, 1, 0.3)):
        add("arange.start_step", *args)
    add("arange", 5, dtype=F32, compare=BITS)
    for steps in (0, 1, 5, 6):
        add("linspace", 0.0, 1.0, steps)
    add("linspace", -3, 9, 4, dtype=I64, compare=BITS)
    add("logspace", 0.0, 2.0, 5)
    add("tril_indices", 3, 4, -1, compare=BITS)
    add("triu_indices", 3, 4, 1, compare=BITS)
    add("scalar_tensor", 2.5, compare=BITS)
    add("hann_window", 6)
    add("hamming_window", 6)
    add("vander", rand(3), 4)
    add("complex", rand(2), rand(2), compare=BITS)


def in_place():
    for dtype in (F32, BF16, I64, BOOL):
        x = rand(3, 4, dtype=dtype)
        for t in (x, transposed(x), spaced(x), x[1:], x[:, 2]):
            add("fill_.Scalar", t, 1, compare=BITS)
            add("zero_", t, compare=BITS)
            add("fill_.Tensor", t, rand(dtype=dtype), compare=BITS)
        add("fill.Scalar", x, 1, compare=BITS)
        add("fill.Tensor", x, rand(dtype=dtype), compare=BITS)
        for source in (rand(3, 4, dtype=dtype), transposed(rand(3, 4, dtype=dtype)), rand(4, dtype=dtype),
                       rand(3, 1, dtype=dtype), rand(dtype=dtype), rand(3, 4, dtype=F64, low=0, high=9)):
            add("copy_", x.clone(), source, compare=BITS)
            add("copy_", transposed(x), source, compare=BITS)
            add("copy", spaced(x), source, compare=BITS)
        add("fill_diagonal_", x.clone(), 1, compare=BITS)
    base = rand(12)
    add("copy_", base[:6], base[6:], compare=BITS)
    for name, args in (("t_", ()), ("transpose_", (0, 1)), ("squeeze_", ()), ("unsqueeze_", (1,)),
                       ("as_strided_", ([2, 3], [1, 2], 1)), ("resize_", ([2, 3],)), ("resize_", ([12],)),
                       ("swapaxes_", (0, 1)), ("detach_", ()), ("squeeze_.dim", (0,)), ("swapdims_", (0, 1)),
                       ("resize_as_", (torch.zeros(2, 2),)), ("set_.source_Tensor", (rand(2, 5),)),
                       ("set_.source_Tensor_storage_offset",
                        (rand(9), 2, [2, 3], [1, 2])), ("set_", ()), ("rot90", (1,)), ("squeeze_.dims", ([0, 1],))):
        add(name, rand(3, 4), *args, compare=BITS)
        add(name, spaced(rand(3, 4)), *args, compare=BITS)
    for name, args in (("exp", ()), ("sqrt", ()), ("abs", ()), ("neg", ()), ("reciprocal", ()), ("add.Scalar", (2,)),
                       ("mul.Scalar", (3,)), ("sub.Scalar", (2,)), ("div.Scalar", (3,)), ("zero", ()), ("tanh", ()),
                       ("sigmoid", ()), ("clamp_min.Scalar", (0.5,)), ("pow.Scalar", (2,)),
                       ("clamp_max.Scalar", (0.5,)), ("maximum.Scalar", (0.5,)), ("sin", ()), ("round", ()), ("sign",
                                                                                                              ())):
        packet, dot, overload = name.partition(".")
        add(f"_foreach_{name}", [rand(2, 3, low=0.1), transposed(rand(3, 2, low=0.1))], *args)
        add(f"_foreach_{packet}_{dot}{overload}", [rand(2, 3, low=0.1), spaced(rand(4, low=0.1))], *args)
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"):
        add(f"_foreach_{name}.List", [rand(2, 3), rand(4)], [rand(2, 3), rand(4)])
        add(f"_foreach_{name}_.List", [rand(2, 3), transposed(rand(4, 2))], [rand(2, 3), rand(4, 2)])
        add(f"_foreach_{name}.ScalarList", [rand(2, 3), rand(4)], [2.0, 3.0])
    x = rand(4)
    add("_foreach_mul_.Scalar", [x, x], 2)  # the same tensor twice
    add("_foreach_add_.List", [x, rand(4)], [rand(4), x])  # the second reads what the first wrote
    add("_foreach_add_.List", [x[:3], x[1:]], [rand(3), rand(3)])
    add("_foreach_copy_", [rand(3), rand(2)], [rand(3), rand(2)], compare=BITS)
    add("_foreach_addcmul_.Scalar", [rand(3)], [rand(3)], [rand(3)], 2)
    add("_foreach_addcdiv_.Scalar", [rand(3)], [rand(3, low=1)], [rand(3, low=1)], 2)
    add("_foreach_lerp_.Scalar", [rand(3)], [rand(3)], 0.3)
    add("_foreach_lerp.List", [rand(3)], [rand(3)], [rand(3)])
    add("_foreach_norm.Scalar", [rand(3), rand(2, 2)])
    add("_foreach_pow.ScalarAndTensor", 2, [rand(3)])
    add("squeeze_.dim", rand(3, 1), 1, compare=BITS)


def scalars():
    for value in (torch.tensor(2.5), torch.tensor(3), torch.tensor(True), torch.tensor([[7]])):
        add("item", value)
        add("_local_scalar_dense", value)
        add("is_nonzero", value)
        add("Bool.Tensor", value)
        add("Int.Tensor", value)
        add("Float.Tensor", value)
    for name in ("size", "stride"):
        add(name, transposed(rand(2, 3)))
        add(name + ".int", transposed(rand(2, 3)), 1)
    for name in ("numel", "dim", "storage_offset", "is_floating_point", "is_complex", "is_contiguous", "len.Tensor",
                 "sym_numel", "is_signed"):
        add(name, spaced(rand(2, 3)))
    for name in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "floordiv", "remainder"):
        for a, b in ((7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5)):
            add(name + ".int", a, b)
        for a, b in ((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0)):
            add(name + ".float", a, b)
    for a, b in ((7, 2), (-7, 2), (1, 3)):
        add("div.int", a, b)
        add("__round_to_zero_floordiv.int", a, b)
        add("pow.int", a, b)
    add("div.float", 7.5, 2.0)
    for name in ("neg", "ceil", "floor", "sqrt", "exp", "log", "sin", "tanh" if has("tanh.float") else "cos", "abs"):
        add(name + ".float", 2.25)
        add(name + ".int", 4)
    for a, b in ((True, False), (True, True)):
        for name in ("__and__", "__or__", "__xor__"):
            add(name + ".bool", a, b)
    add("__not__", True)
    add("Int.float", -2.7)
    add("Int.bool", True)
    add("Float.int", 3)
    add("Bool.int", 3)
    add("Bool.float", 0.0)
    add("__range_length", 0, 10, 3)
    add("__range_length", 10, 0, -3)
    add("__derive_index", 2, 1, 3)
    add("len.t", [1, 2, 3])
    add("add.t", [1, 2], [3])
    add("eq.int_list", [1, 2], [1, 2])
    add("__contains__.int_list", [1, 2], 2)


def places_of_a_fixed_number():
    add("nonzero_static", torch.tensor([[1.5, 0, 2], [0, 0, -1]]), size=4, fill_value=-7)


def slices_that_differ():
    x = torch.tensor([[1, 0], [0, 2], [1, 0], [0, 1], [0, 1]])
    add("unique_dim", x, 0, True, True, True)
    add("unique_consecutive", x.t(), True, True, 1)
