"""Calls for make_op_answers.py: reductions, norms, matrix products, convolutions, recurrent cells, losses, gradients."""

import torch

from op_table import BF16, BITS, BOOL, C64, C128, CLOSE, EQUAL, F16, F32, F64, FLOATS
from op_table import I32, I64, INF, NAN, U8, add, ints, rand, spaced, special, transposed


def reductions():
    for dtype in (F32, F64, F16, BF16, I64, I32, U8, BOOL):
        x = rand(3, 5, dtype=dtype, low=0.5, high=4)
        kinds = (x, transposed(x), spaced(x), x[1], x[0, 0]) if dtype in (F32, I64) else (x,)
        for t in kinds:
            for name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "amax", "amin"):
                add(name, t, compare=EQUAL if name not in ("sum", "prod") else CLOSE)
            if dtype.is_floating_point:
                add("mean", t)
        for dims, keep in (([0], False), ([1], True), ([0, 1], False), ([-1], False), ([], False)):
            add("sum.dim_IntList", x, dims, keep)
            if dtype != BOOL:
                add("amax", x, dims, keep, compare=EQUAL)
                add("amin", x, dims, keep, compare=EQUAL)
            add("any.dims", x, dims, keep, compare=BITS)
            add("all.dims", x, dims, keep, compare=BITS)
            if dtype in FLOATS:
                add("mean.dim", x, dims, keep)
                add("logsumexp", x, dims or [0], keep)
                add("nansum", x, dims, keep)
                add("nanmean", x, dims, keep)
                if dims:
                    add("var.correction", x, dims, correction=1, keepdim=keep)
                    add("std.correction", x, dims, correction=0, keepdim=keep)
                    add("var_mean.correction", x, dims, correction=2, keepdim=keep)
                    add("std_mean.correction", x, dims, correction=1, keepdim=keep)
                    add("var.dim", x, dims, True, keep)
                    add("linalg_vector_norm", x, 2, dims, keep)
                    add("norm.ScalarOpt_dim", x, 1, dims, keep)
        for dim in (0, -1):
            for name in ("max.dim", "min.dim", "any.dim", "all.dim", "argmax", "argmin"):
                add(name, x, dim, True, compare=EQUAL)
            for name in ("cumsum", "cumprod"):
                add(name, x, dim)
                add(name, transposed(x), dim)
            if dtype != BOOL:
                add("cummax", x, dim, compare=EQUAL)
                add("cummin", x, dim, compare=EQUAL)
                add("sort.stable", x, stable=True, dim=dim, compare=EQUAL)
                add("argsort.stable", x, stable=True, dim=dim, compare=EQUAL)
                add("prod.dim_int", x, dim)
            add("sum.dim_IntList", x[:, :0], [dim])
            add("count_nonzero.dim_IntList", x, [dim], compare=BITS)
        add("nonzero", x.to(I32) % 2, compare=BITS)
        add("sum.IntList_out" if False else "sum.dim_IntList", x, None, dtype=F64)
    careful = special(F32)
    for name in ("sum", "max", "min", "argmax", "argmin", "nansum", "amax", "aminmax", "any", "all", "mean", "prod"):
        add(name, careful, compare=EQUAL)
        add(name, careful[3:], compare=EQUAL if name not in ("sum", "nansum", "mean", "prod") else CLOSE)
    x = rand(2, 3, 4)
    for p in (0, 1, 2, 3, INF, -INF, 0.5):
        add("linalg_vector_norm", x, p, [1, 2])
    add("linalg_vector_norm", x)
    add("norm.Scalar", x)
    add("norm.ScalarOpt_dim", x, None, [1])
    for dim in (0, 1, 2):
        add("logcumsumexp", x, dim)
        add("topk", x, 2, dim, compare=BITS)
        add("topk", x, 2, dim, False, compare=BITS)
        add("median.dim", x, dim, compare=BITS)
        add("kthvalue", x, 2, dim, compare=BITS)
        add("mode", ints(2, 3, 4, high=2), dim, compare=BITS) if dim == 2 else None
        add("diff", x, 1, dim)
        add("sort", x, dim, True, compare=BITS)
        add("argsort", x, dim, True, compare=BITS)
        add("flip", x, [dim], compare=BITS)
    add("median", x, compare=BITS)
    add("var", x)
    add("std", x)
    add("std", x, False)
    add("count_nonzero", ints(3, 4, high=2), compare=BITS)
    add("nonzero", ints(3, 4, high=2), compare=BITS)
    add("trace", x[0])
    add("cumsum", ints(3, 4), 1, dtype=F64)
    add("cumsum_", rand(3, 4), 1)
    add("cumprod_", rand(3, 4), 0)
    add("sum.IntList_out", x, [1], out=torch.empty(0))
    add("sum.IntList_out", x, [1], out=transposed(torch.zeros(2, 4)))
    add("amax.out", x, [1], out=torch.zeros(2, 4))
    add("max.dim_max", x, 1, max=torch.empty(0), max_values=torch.empty(0, dtype=I64), compare=BITS)
    add("mean.out", x, [0], out=torch.zeros(3, 4))
    add("cumsum.out", x, 1, out=torch.empty(0))
    add("aminmax", x, dim=1, compare=BITS)
    add("bincount", ints(9, high=5), compare=BITS)
    add("searchsorted.Tensor",
        torch.tensor([1.0, 2.0, 4.0, 4.0, 8.0]),
        torch.tensor([0.5, 4.0, 9.0]),
        right=True,
        compare=BITS)
    add("bucketize.Tensor", torch.tensor([0.5, 4.0, 9.0]), torch.tensor([1.0, 2.0, 4.0]), compare=BITS)
    add("cumulative_trapezoid.dx", x)
    add("trapezoid.dx", x)
    add("unique_consecutive", torch.tensor([1, 1, 2, 2, 3, 1]), True, True, compare=BITS)
    add("_unique2", torch.tensor([3, 1, 2, 2, 3, 1]), True, True, True, compare=BITS)
    add("is_same_size", x, x)
    add("equal", x, x.clone())
    add("allclose", x, x + 1)
    add("isclose", x, x + 1e-6, compare=BITS)


def norms():
    for dtype in (F32, F64, BF16, F16):
        x = rand(2, 3, 4, dtype=dtype)
        for dim in (0, 1, -1):
            for name in ("_softmax", "_log_softmax"):
                add(name, x, dim, False)
            add("softmax.int", x, dim)
            add("log_softmax.int", transposed(x), dim)
        add("softmax.int", x, 1, F32)
        add("layer_norm", x, [4], rand(4, dtype=dtype), rand(4, dtype=dtype))
        add("layer_norm", transposed(x), [3, 4], eps=1e-3)
        add("native_layer_norm", x, [4], rand(4, dtype=dtype), rand(4, dtype=dtype), 1e-5)
        add("native_layer_norm", x, [3, 4], None, None, 1e-5)
        add("rms_norm", x, [4], rand(4, dtype=dtype), 1e-5)
        add("rms_norm", x, [4])
        if dtype in (F32, F64):
            weight, bias, mean, var = (rand(3, dtype=dtype, low=0.5, high=2) for _ in range(4))
            for training in (True, False):
                add("batch_norm", x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5, True)
                add("native_batch_norm", x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5)
                add("_native_batch_norm_legit", x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5)
            add("batch_norm", x, None, None, None, None, True, 0.1, 1e-5, False)
            add("batch_norm", rand(4, 3, dtype=dtype), weight, None, mean, var, True, 0.3, 1e-3, False)
            add("_native_batch_norm_legit.no_stats", x, weight, bias, True, 0.1, 1e-5)
            add("_native_batch_norm_legit_no_training", x, weight, bias, mean, var, 0.1, 1e-5)
            add("_native_batch_norm_legit_functional", x, weight, bias, mean, var, True, 0.1, 1e-5)
            add("_batch_norm_with_update", x, weight, bias, mean.clone(), var.clone(), 0.1, 1e-5)
            add("_batch_norm_no_update", x, weight, bias, mean.clone(), var.clone(), 0.1, 1e-5)
            add("instance_norm", x, weight, bias, mean.clone(), var.clone(), True, 0.1, 1e-5, False)
            add("instance_norm", x, weight, bias, mean.clone(), var.clone(), False, 0.1, 1e-5, False)
            y = rand(2, 6, 3, dtype=dtype)
            add("group_norm", y, 3, rand(6, dtype=dtype), rand(6, dtype=dtype))
            add("native_group_norm", y, rand(6, dtype=dtype), None, 2, 6, 3, 3, 1e-5)
            saved = rand(3, dtype=dtype, low=0.5, high=2), rand(3, dtype=dtype, low=0.5, high=2)
            for mask in ([True, True, True], [False, True, False]):
                add("native_batch_norm_backward", x, rand(2, 3, 4, dtype=dtype), weight, mean, var, *saved, True, 1e-5,
                    mask)
                add("native_batch_norm_backward", x, rand(2, 3, 4, dtype=dtype), weight, mean, var, *saved, False, 1e-5,
                    mask)
                add("native_layer_norm_backward", x, rand(2, 3, 4, dtype=dtype), [4], rand(2, 3, 1, dtype=dtype),
                    rand(2, 3, 1, dtype=dtype), rand(4, dtype=dtype), rand(4, dtype=dtype), mask)
                add("native_group_norm_backward", y, rand(2, 6, 3, dtype=dtype), rand(2, 3, dtype=dtype),
                    rand(2, 3, dtype=dtype), rand(6, dtype=dtype), 2, 6, 3, 3, mask)
    add("softmax.int", torch.tensor([[-INF, 0.0, 1.0], [1000.0, 999.0, -INF], [NAN, 0.0, 1.0]]), 1)
    add("softmax.int", torch.full((2, 2), -INF), 1)
    add("log_softmax.int", torch.tensor([[-INF, 0.0, 1.0], [1000.0, 999.0, 0.0]]), 1)
    add("_safe_softmax", torch.tensor([[-INF, -INF], [0.0, 1.0]]), 1)
    add("softmax.int", torch.tensor(2.0), 0)
    add("dropout", rand(4), 0.5, False, compare=BITS)
    add("dropout_", rand(4), 0.5, False, compare=BITS)
    add("feature_dropout", rand(2, 3, 4), 0.5, False, compare=BITS)
    add("cosine_similarity", rand(3, 4), rand(3, 4))
    add("pairwise_distance", rand(3, 4), rand(3, 4))


def algebra():
    for dtype in (F32, F64, BF16, I64, C64):
        low = 0.5 if dtype == BF16 else -3
        a, b = rand(3, 4, dtype=dtype, low=low), rand(4, 5, dtype=dtype, low=low)
        add("mm", a, b)
        add("mm", transposed(a), transposed(b))
        add("mm", a[:, :0], b[:0])
        add("matmul", a, b)
        add("mv", a, b[:, 0])
        add("dot", a[0], b[:, 1])
        add("outer", a[0], b[0])
        add("addmm", b[0], a, b)
        add("addmm", rand(3, 5, dtype=dtype, low=low), a, b, beta=2, alpha=3)
        add("addmv", rand(3, dtype=dtype, low=low), a, b[:, 2])
        add("bmm", rand(2, 3, 4, dtype=dtype, low=low), rand(2, 4, 2, dtype=dtype, low=low))
        add("baddbmm",
            rand(2, 3, 2, dtype=dtype, low=low),
            rand(2, 3, 4, dtype=dtype, low=low),
            rand(2, 4, 2, dtype=dtype, low=low),
            beta=2)
        add("linear", rand(2, 3, 4, dtype=dtype, low=low), rand(5, 4, dtype=dtype, low=low),
            rand(5, dtype=dtype, low=low))
        add("linear", rand(4, dtype=dtype, low=low), rand(5, 4, dtype=dtype, low=low))
    for x, y in (((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
                 ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 3)), ((2, 0), (0,
                                                                                                                  3))):
        add("matmul", rand(*x), rand(*y))
    add("addbmm", rand(3, 2), rand(2, 3, 4), rand(2, 4, 2))
    add("addr", rand(3, 2), rand(3), rand(2), beta=0.5, alpha=2)
    add("addmm_", rand(3, 5), rand(3, 4), rand(4, 5), alpha=0.5)
    add("baddbmm_", rand(2, 3, 2), rand(2, 3, 4), rand(2, 4, 2))
    add("mm.out", rand(3, 4), rand(4, 5), out=torch.empty(0))
    add("mm.out", rand(3, 4), rand(4, 5), out=transposed(torch.zeros(3, 5)))
    add("matmul.out", rand(2, 3, 4), rand(4, 5), out=torch.empty(0))
    add("addmm", torch.full((3, 5), NAN), rand(3, 4), rand(4, 5), beta=0)
    add("einsum", "bij,bjk->bik", [rand(2, 3, 4), rand(2, 4, 2)])
    add("einsum", "ij,kj->ik", [rand(3, 4), rand(2, 4)])
    add("tensordot", rand(2, 3, 4), rand(3, 4, 5), [1, 2], [0, 1])
    add("kron", rand(2, 3), rand(3, 2))
    add("cdist", rand(3, 4), rand(2, 4))
    add("linalg_cross", rand(2, 3), rand(2, 3))
    add("vdot", rand(3), rand(3))
    add("inner", rand(2, 3), rand(4, 3))

    x1, x2, x3 = rand(2, 4, 9), rand(2, 4, 7, 6), rand(1, 2, 4, 5, 4)
    add("conv1d", x1, rand(6, 4, 3), rand(6), [2], [1], [2])
    add("conv1d.padding", x1, rand(6, 4, 3), None, [1], "same")
    add("conv2d", x2, rand(6, 4, 3, 3), rand(6))
    add("conv2d", x2, rand(6, 4, 3, 2), None, [2, 1], [1, 2], [2, 1])
    add("conv2d", x2, rand(8, 2, 3, 3), rand(8), [1, 1], [1, 1], [1, 1], 2)
    add("conv2d", x2, rand(4, 1, 3, 3), rand(4), [1, 1], [1, 1], [1, 1], 4)
    add("conv2d", x2.contiguous(memory_format=torch.channels_last), rand(6, 4, 3, 3), rand(6))
    add("conv2d", x2[0], rand(6, 4, 3, 3))
    add("conv2d", x2.double(), rand(6, 4, 1, 1).double())
    add("conv2d", rand(1, 2, 4, 4, low=0.5).bfloat16(), rand(3, 2, 3, 3, low=0.5).bfloat16())
    add("conv2d.padding", x2, rand(6, 4, 3, 2), rand(6), [1, 1], "same", [1, 2])
    add("conv2d.padding", x2, rand(6, 4, 3, 2), None, [2, 2], "valid")
    add("conv3d", x3, rand(3, 2, 2, 3, 2), rand(3), [1, 2, 1], [0, 1, 0])
    add("conv_transpose1d", x1, rand(4, 3, 3), rand(3), [2], [1], [1])
    add("conv_transpose2d.input", x2, rand(4, 3, 3, 3), rand(3), [2, 2], [1, 1], [1, 0])
    add("conv_transpose2d.input", x2, rand(4, 3, 3, 3), None, [1, 1], [0, 0], [0, 0], 2, [2, 2])
    add("convolution", x2, rand(6, 4, 3, 3), rand(6), [1, 2], [1, 0], [1, 1], False, [0, 0], 1)
    add("convolution", x2, rand(4, 3, 2, 2), None, [2, 2], [0, 0], [1, 1], True, [1, 1], 1)
    for mask in ([True, True, True], [False, True, False]):
        add("convolution_backward", rand(2, 6, 5, 4), x2, rand(6, 4, 3, 3), [6], [1, 1], [0, 0], [1, 1], False, [0, 0],
            1, mask)
        add("convolution_backward", rand(2, 6, 4, 3), x2, rand(6, 2, 3, 3), [6], [2, 2], [1, 1], [1, 1], False, [0, 0],
            2, mask)
    for dtype in (F32, F64, BF16):
        y = rand(1, 2, 6, 7, dtype=dtype)
        for args in (([2, 2],), ([3, 3], [2, 2], [1, 1]), ([2, 3], [1, 2], [0, 1], [2, 1]), ([3, 2], [2, 2], [1, 1],
                                                                                             [1, 1], True)):
            add("max_pool2d", y, *args, compare=BITS)
            add("max_pool2d_with_indices", y, *args, compare=BITS)
        for args in (([2, 2],), ([3, 3], [2, 2], [1, 1]), ([3, 3], [2, 2], [1, 1], True),
                     ([3, 3], [2, 2], [1, 1], False, False), ([2, 2], [], [0, 0], False, True, 3)):
            add("avg_pool2d", y, *args)
        add("adaptive_avg_pool2d", y, [3, 2])
        add("_adaptive_avg_pool2d", y, [1, 1])
        add("_adaptive_avg_pool2d", y, [4, 5])
        add("adaptive_max_pool2d", y, [3, 4], compare=BITS)
        add("upsample_nearest2d", y, [12, 9], compare=BITS)
        add("upsample_nearest2d.vec", y, None, [2.0, 1.5], compare=BITS)
        if dtype != BF16:
            add("upsample_bilinear2d", y, [9, 5], False)
            add("upsample_bilinear2d.vec", y, [9, 5], True, None)
    y = rand(2, 3, 8)
    add("max_pool1d", y, [3], [2], [1], compare=BITS)
    add("avg_pool1d", y, [3], [2], [1])
    add("adaptive_avg_pool1d", y, [3])
    add("max_pool3d", x3, [2, 2, 2], compare=BITS)
    add("avg_pool3d", x3, [2, 2, 2])
    add("max_pool2d", rand(3, 6, 6), [2, 2], compare=BITS)
    add("max_pool2d", torch.tensor([[[[1.0, NAN], [2.0, 3.0]]]]), [2, 2], compare=BITS)
    add("upsample_nearest1d", y, [5], compare=BITS)
    add("pixel_shuffle", rand(1, 8, 2, 3), 2, compare=BITS)
    add("pixel_unshuffle", rand(1, 2, 4, 6), 2, compare=BITS)
    add("im2col", rand(1, 2, 5, 5), [3, 2], [1, 1], [1, 0], [2, 1], compare=BITS)
    add("col2im", rand(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])
    add("channel_shuffle", rand(1, 6, 2, 2), 3, compare=BITS)

    q, k, v = rand(2, 3, 4, 8), rand(2, 3, 5, 8), rand(2, 3, 5, 6)
    add("scaled_dot_product_attention", q, k, v)
    add("scaled_dot_product_attention", q, k, v, is_causal=True)
    add("scaled_dot_product_attention", q, k, v, rand(4, 5))
    add("scaled_dot_product_attention", q, k, v, torch.ones(4, 5, dtype=BOOL).tril(), scale=0.3)
    add("scaled_dot_product_attention", q[:, :2], k[:, :1], v[:, :1], enable_gqa=True)
    width, hidden = 5, 4
    weights = [rand(4 * hidden, width), rand(4 * hidden, hidden), rand(4 * hidden), rand(4 * hidden)]
    add("lstm.input", rand(3, 2, width), [rand(1, 2, hidden), rand(1, 2, hidden)], weights, True, 1, 0.0, False, False,
        False)
    add("lstm.input", rand(2, 3, width), [rand(1, 2, hidden), rand(1, 2, hidden)], weights, True, 1, 0.0, False, False,
        True)
    add("lstm_cell", rand(2, width), [rand(2, hidden), rand(2, hidden)], *weights)
    weights = [rand(3 * hidden, width), rand(3 * hidden, hidden), rand(3 * hidden), rand(3 * hidden)]
    add("gru.input", rand(3, 2, width), rand(1, 2, hidden), weights, True, 1, 0.0, False, False, False)
    add("gru_cell", rand(2, width), rand(2, hidden), *weights)
    weights = [rand(hidden, width), rand(hidden, hidden), rand(hidden), rand(hidden)]
    add("rnn_tanh.input", rand(3, 2, width), rand(1, 2, hidden), weights, True, 1, 0.0, False, False, False)


def losses():
    for dtype in (F32, F64):
        x, target = rand(5, 4, dtype=dtype), ints(5, high=4)
        logp = torch.log_softmax(x, 1)
        weight = rand(4, dtype=dtype, low=0.5)
        for reduction in (0, 1, 2):
            add("nll_loss_forward", logp, target, None, reduction, -100)
            add("nll_loss_forward", logp, target, weight, reduction, 2)
            add("nll_loss", logp, target, weight, reduction)
            add("cross_entropy_loss", x, target, None, reduction)
            add("mse_loss", x, rand(5, 4, dtype=dtype), reduction)
            add("l1_loss", x, rand(5, 4, dtype=dtype), reduction)
            add("smooth_l1_loss", x, rand(5, 4, dtype=dtype), reduction, 0.7)
            add("huber_loss", x, rand(5, 4, dtype=dtype), reduction, 0.7)
            add("binary_cross_entropy", rand(5, dtype=dtype, low=0.05, high=0.95), rand(5, dtype=dtype, low=0, high=1),
                None, reduction)
            add("binary_cross_entropy_with_logits", x, rand(5, 4, dtype=dtype, low=0, high=1), weight, None, reduction)
            add("kl_div", logp, torch.softmax(x.flip(0), 1), reduction)
            add("mse_loss_backward", rand(*([5, 4] if reduction == 0 else []), dtype=dtype), x, rand(5, 4, dtype=dtype),
                reduction)
            total = weight[target].sum() if reduction == 1 else torch.zeros((), dtype=dtype)
            add("nll_loss_backward", rand(*([5] if reduction == 0 else []), dtype=dtype), logp, target, weight,
                reduction, -100, total)
        add("cross_entropy_loss", x, torch.softmax(x, 1), None, 1, -100, 0.1)
        add("cross_entropy_loss", x, target, weight, 1, 2, 0.2)
        g = rand(5, 4, dtype=dtype)
        add("_log_softmax_backward_data", g, logp, 1, dtype)
        add("_softmax_backward_data", g, torch.softmax(x, 1), 1, dtype)
        add("threshold_backward", g, x, 0, compare=BITS)
        add("threshold_backward", g, x, 0.5, compare=BITS)
        add("gelu_backward", g, x)
        add("gelu_backward", g, x, approximate="tanh")
        add("silu_backward", g, x)
        add("sigmoid_backward", g, torch.sigmoid(x))
        add("tanh_backward", g, torch.tanh(x))
        add("hardtanh_backward", g, x, -1, 1)
        add("hardsigmoid_backward", g, x)
        add("hardswish_backward", g, x)
        add("leaky_relu_backward", g, x, 0.1, False)
        add("elu_backward", g, 1.0, 1.0, 1.0, False, x)
        add("softplus_backward", g, x, 1, 20)
        add("logit_backward", g, torch.sigmoid(x))
        add("embedding_dense_backward", g, ints(5, high=7), 7, -1, False)
        add("embedding_dense_backward", g, ints(5, high=7), 7, 2, True)
        images = rand(1, 2, 6, 6, dtype=dtype)
        out, where = torch.ops.aten.max_pool2d_with_indices(images, [2, 2])
        add("max_pool2d_with_indices_backward", rand(*out.shape, dtype=dtype), images, [2, 2], [], [0, 0], [1, 1],
            False, where)
        add("avg_pool2d_backward", rand(1, 2, 3, 3, dtype=dtype), images, [3, 3], [2, 2], [1, 1], False, True, None)
        add("_adaptive_avg_pool2d_backward", rand(1, 2, 2, 3, dtype=dtype), images)
        add("upsample_nearest2d_backward", rand(1, 2, 12, 12, dtype=dtype), [12, 12], [1, 2, 6, 6])
        add("select_backward", rand(3, dtype=dtype), [4, 3], 0, 1, compare=BITS)
        add("slice_backward", rand(2, 3, dtype=dtype), [5, 3], 0, 0, 4, 2, compare=BITS)
        add("diagonal_backward", rand(3, dtype=dtype), [3, 4], 0, 0, 1, compare=BITS)
        add("unfold_backward", rand(3, 2, dtype=dtype), [6], 0, 2, 2)
        add("native_dropout_backward", g, x > 0, 2.0)


def projected_lstm():
    width, hidden, projected = 5, 4, 3
    weights = [
        rand(*sizes) for inputs in (width, 2 * projected) for _ in range(2)
        for sizes in ((4 * hidden, inputs), (4 * hidden, projected), (projected, hidden))
    ]
    add("lstm.input", rand(3, 2, width), [rand(4, 2, projected), rand(4, 2, hidden)], weights, False, 2, 0.0, False,
        True, False)


def smoothed_resampling():
    for dtype in (torch.float32, torch.float64):
        image = rand(2, 3, 11, 8, dtype=dtype)
        for op in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
            for sizes in ([5, 3], [16, 8], [11, 19], [1, 1]):
                for align in (False, True):
                    add(op, image, sizes, align)
            add(op, image, [5, 6], False, 0.5, 0.75)
            add(op + ".vec", image, None, False, [0.5, 1.5])
            add(op + ".vec", image.contiguous(memory_format=torch.channels_last), [4, 4], False, None)


def image_blocks():
    """Where each place of the input makes a block of the output, and images with other batch dims than one."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        # Parts of one sign: in bfloat16 a sum that cancels has no digits to compare.
        x = rand(2, 4, 3, 5, dtype=dtype, low=0.5)
        add("convolution", x, rand(4, 3, 2, 2, dtype=dtype, low=0.5), rand(3, dtype=dtype, low=0.5), [2, 2], [0, 0], [1, 1], True, [0, 0], 1)
        add("convolution", x, rand(4, 3, 2, 3, dtype=dtype, low=0.5), None, [2, 3], [0, 0], [1, 1], True, [0, 0], 1)
    x = rand(2, 4, 3, 5)
    add("conv_transpose2d.input", x, rand(4, 3, 2, 2), rand(3), [2, 2])
    add("conv_transpose2d.input", x[0], rand(4, 3, 2, 2), rand(3), [2, 2])
    add("conv_transpose2d.input", x.contiguous(memory_format=torch.channels_last), rand(4, 3, 3, 3), rand(3), [3, 3])
    add("conv_transpose2d.input", x, rand(4, 3, 2, 2), rand(6), [2, 2], [0, 0], [0, 0], 2)
    add("conv_transpose1d", rand(2, 4, 7), rand(4, 3, 4), rand(3), [4])
    add("conv_transpose3d.input", rand(1, 4, 2, 3, 2), rand(4, 3, 2, 2, 2), rand(3), [2, 2, 2])
    for batch in ((), (2, ), (2, 3), (2, 1, 3)):
        add("pixel_shuffle", rand(*batch, 8, 2, 3), 2, compare=BITS)
        add("pixel_unshuffle", rand(*batch, 2, 4, 6), 2, compare=BITS)


def fourier():
    """Transforms along one and several dims, of cut and filled signals, laid out as PyTorch lays them out; windows."""
    for dtype, paired in ((F32, C64), (F64, C128)):
        real, pairs = rand(3, 4, 5, dtype=dtype), rand(3, 4, 5, dtype=paired)
        for dims in ([0], [1], [2], [0, 1], [1, 0], [2, 0], [0, 1, 2], [2, 1, 0]):
            add("_fft_c2c", pairs, dims, len(dims) % 3, dims[0] != 1)
            add("_fft_r2c", real, dims, len(dims) % 3, True)
            add("_fft_r2c", real, dims, 0, False)
            add("_fft_c2r", pairs, dims, len(dims) % 3, 2 * (pairs.size(dims[-1]) - 1))
        add("_fft_c2c", pairs.permute(2, 0, 1), [0, 2], 0, False)
        add("_fft_c2r", pairs, [1], 2, 7)
    for n in (1, 2, 7, 30, 67, 134):  # 67 is a prime that is transformed by a convolution
        add("fft_fft", rand(2, n, dtype=C64))
        add("fft_ifft", rand(2, n, dtype=C64))
        add("fft_rfft", rand(2, n))
        if n > 1:
            add("fft_irfft", rand(2, n, dtype=C64))
    x, z, i = rand(2, 3, 6), rand(2, 3, 6, dtype=C64), torch.arange(12).reshape(3, 4)
    for norm in (None, "forward", "backward", "ortho"):
        for n in (None, 4, 9):
            for name in ("fft_fft", "fft_rfft", "fft_irfft", "fft_hfft"):
                add(name, x if name in ("fft_fft", "fft_rfft") else z, n, 1 if n == 4 else -1, norm)
            add("fft_ifft", z, n, 0, norm)
        for s in (None, [4, 3]):
            add("fft_fft2", z, s, [0, 2], norm)
            add("fft_ifft2", x, s, norm=norm)
            add("fft_rfft2", x, s, norm=norm)
            add("fft_irfft2", z, s, norm=norm)
            add("fft_hfft2", z, s, norm=norm)
            add("fft_ihfft2", x, s, norm=norm)
        for name, of in (("fft_fftn", z), ("fft_ifftn", z), ("fft_rfftn", x), ("fft_irfftn", z), ("fft_hfftn", z), ("fft_ihfftn", x)):
            add(name, of, norm=norm)
            add(name, of, [4, 3], norm=norm)
    for name in ("fft_fft", "fft_rfft", "fft_irfft"):
        add(name, i)
    for n in (4, 5):
        for name in ("fft_fftshift", "fft_ifftshift"):
            add(name, rand(2, n), compare=BITS)
            add(name, rand(2, n, dtype=C64), [1])
    wave, window = rand(2, 40), rand(8, low=0.1)
    add("stft", wave, 8, 3, 8, window, False, True, True)
    add("stft", wave[0], 8, None, 5, rand(5), True, False, True)
    add("stft", wave, 8, 2, 6, None, False, True, False)
    add("stft", rand(30, dtype=C64), 7, 2, 7, None, False, False, True)
    add("stft.center", wave, 8, 3, 8, window, True, "reflect", False, True, True)
    add("stft.center", wave[0], 8, 3, 8, window, True, "constant", True, True, True)
    half, whole = rand(2, 5, 7, dtype=C64), rand(8, 7, dtype=C64)
    add("istft", half, 8, 3, 8, window)
    add("istft", half[0], 8, None, 5, rand(5, low=0.1), True, True)
    add("istft", half, 8, 2, 8, window, False, False, None, 15)
    add("istft", half, 8, 2, 8, window, True, False, True, 40)
    add("istft", whole, 8, 2, 8, window, True, False, False)
    add("istft", whole, 8, 2, 6, rand(6, dtype=C64, low=0.1), True, False, False, None, True)
    add("istft", rand(4, 6, dtype=C128), 7, 2)


def factorizations():
    """Systems of equations, inverses, determinants: of one matrix, of several, of none; singular ones."""
    for dtype in (F32, F64, C64, C128):
        for sizes in ((3, 3), (2, 3, 4, 4), (1, 1), (2, 0, 0), (0, 3, 3)) if dtype in (F32, C64) else ((4, 4),):
            a, b = rand(*sizes, dtype=dtype), rand(*sizes[:-1], 2, dtype=dtype)
            positive = a @ a.mH + torch.eye(sizes[-1], dtype=dtype)
            for x in (a, a.mT) if sizes == (3, 3) else (a,):
                for name in ("linalg_inv", "inverse", "linalg_det", "det", "linalg_slogdet", "slogdet", "logdet", "linalg_inv_ex"):
                    add(name, x)
                add("linalg_solve", x, b)
                if not dtype.is_complex:  # else its result is a conjugate view
                    add("linalg_solve", x, b.mT, left=False)
                add("linalg_solve_ex", x, b)
                add("linalg_solve_triangular", x, b, upper=True)
                add("linalg_solve_triangular", x, b, upper=False, unitriangular=True)
                if sizes[-1] > 1:  # else the strides mean nothing
                    add("linalg_solve_triangular", x, b.mT, upper=True, left=False)
            for upper in (False, True):
                add("linalg_cholesky", positive, upper=upper)
                add("linalg_cholesky_ex", positive, upper=upper)
                factor = torch.linalg.cholesky(positive, upper=upper)
                add("cholesky_solve", b, factor, upper)
                add("cholesky_inverse", factor, upper)
    one, many = rand(3, 3), rand(4, 3, 3)
    add("linalg_solve", one, rand(3))
    add("linalg_solve", many, rand(4, 3))
    add("linalg_solve", one, rand(4, 3, 2))
    add("linalg_solve", many, rand(3, 2))
    add("linalg_solve_triangular", one, rand(4, 3, 2), upper=True)
    flat = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    for name in ("linalg_det", "linalg_slogdet", "logdet"):
        add(name, torch.stack([flat, flat.t() + torch.eye(2), -torch.eye(2)]))


def orthogonal_factors():
    """Q R; singular values and eigenvalues, whose vectors PyTorch does not promise; what is made of them."""
    for dtype in (F32, F64, C64):
        for sizes in ((5, 3), (3, 5), (2, 4, 4), (0, 3), (2, 1, 1)) if dtype != F64 else ((4, 3),):
            a = rand(*sizes, dtype=dtype)
            for mode in ("reduced", "complete", "r"):
                add("linalg_qr", a, mode)
            add("qr", a.mT if len(sizes) == 2 else a, False)
            add("linalg_svdvals", a)
            if 0 not in sizes:
                add("linalg_cond", a)
                add("linalg_cond", a, -2)
                add("linalg_matrix_norm", a, -2)
                add("linalg_matrix_norm", a, 2, keepdim=True)
                add("linalg_pinv.atol_rtol_float", a)
                add("pinverse", a, 0.3)
                add("linalg_matrix_rank", a, 0.5)
                add("linalg_matrix_rank.atol_rtol_float", a, rtol=0.4)
            add("linalg_matrix_norm.str_ord", a, "nuc")
        square = rand(3, 4, 4, dtype=dtype)
        for uplo in ("L", "U"):
            add("linalg_eigvalsh", square, uplo)
    a = rand(3, 4, 5)
    for order in (1, -1, 2, -2, INF, -INF):
        add("linalg_norm", a[0], order)
        add("linalg_matrix_norm", a, order, (2, 0), True)
        add("linalg_matrix_norm", a, order, (0, -2), dtype=F64)
    for order in ("fro", "nuc"):
        add("linalg_norm.ord_str", a, order, (0, 2), True)
    add("linalg_norm", a, 3, (1,))
    add("linalg_norm", a.to(BF16), 1, (0, 1))
    add("linalg_matrix_rank.atol_rtol_float", a[0].t() @ a[0])
    add("linalg_matrix_rank.atol_rtol_float", a[0].t() @ a[0], hermitian=True)


def differences():
    """Finite differences; distances of rows; powers of numbers; what pooling took put back in three dims."""
    a, whole = rand(4, 5), torch.arange(12).reshape(3, 4) ** 2
    for order in (1, 2):
        for x in (a, whole, a.to(F64), a.to(C64)):
            add("gradient.scalarint", x, spacing=None, dim=None, edge_order=order)
            add("gradient.scalarint", x, spacing=0.3, dim=-1, edge_order=order)
            add("gradient.array", x, dim=[1, 0], edge_order=order)
        at = [rand(4, low=0.1).cumsum(0), rand(5, low=0.1).cumsum(0)]
        add("gradient.scalararray", a, spacing=2, dim=[1, 0], edge_order=order)
        add("gradient.tensorarrayint", a, spacing=at, dim=None, edge_order=order)
        add("gradient.tensorarray", a, spacing=at[1:], dim=[1], edge_order=order)
    for p in (0.0, 1.0, 2.0, 3.0, INF):
        add("pdist", a, p)
    add("pdist", a[:1])
    add("linalg_vander", a, N=3)
    add("linalg_vander", whole)
    pooled, where = torch.nn.functional.max_pool3d(rand(2, 3, 4, 6, 4), 2, return_indices=True)
    add("max_unpool3d", pooled, where, [4, 6, 4], [2, 2, 2], [0, 0, 0])
    add("max_unpool3d", pooled[0], where[0], [5, 6, 4], [2, 2, 2], [0, 0, 0])


def complex_composites():
    """What is made of complex products, conjugates and sizes."""
    for dtype in (C64, C128):
        a, b = rand(4, 5, dtype=dtype), rand(4, 5, dtype=dtype)
        add("vdot", a[0], b[0])
        add("dot", a[0], b[0])
        add("linalg_vecdot", a, b)
        add("linalg_vecdot", a, b, dim=0)
        add("renorm", a, 2, 0, 0.5)
        add("renorm", a, INF, 1, 0.5)
        x, w = rand(2, 4, 6, dtype=dtype), rand(6, 2, 3, dtype=dtype)
        add("convolution", x, w, rand(6, dtype=dtype), [2], [1], [1], False, [0], 2)
        add("convolution", x, rand(4, 3, 3, dtype=dtype), None, [2], [1], [1], True, [1], 1)
        add("constant_pad_nd", a, [1, 2, 0, 1])
        add("constant_pad_nd", a, [1, -2], 1.5)
    rows = rand(3, 5)
    for n in (0, 2, 5, 7):
        add("diff", rows, n, 1, rand(3, 2), rand(3, 1))
    for dtype in (BF16, F16):  # the quotient is rounded before its fraction is cut off, but of a division by one number
        a, b = rand(20, 20, low=-40, high=40, dtype=dtype), rand(20, 20, low=0.5, high=3, dtype=dtype)
        add("div.Tensor_mode", a, b, rounding_mode="trunc", compare=EQUAL)
        add("div.Tensor_mode", a, b[0, 0].clone(), rounding_mode="trunc", compare=EQUAL)
        for mode in ("trunc", "floor"):
            add("div.Scalar_mode", a, 0.7, rounding_mode=mode, compare=EQUAL)


def kept_in_the_results_dtype():
    """Sums and logarithms that PyTorch rounds on the way, rows left out of bags, corrections that are no integers."""
    for dtype in (BF16, F16):
        x = rand(6, 9, low=-4, high=4, dtype=dtype)
        add("_log_softmax", x, 1, False, compare=EQUAL)
        add("_log_softmax", x, 0, False, compare=EQUAL)
    for padding in (None, -1, 1, -5):
        add("embedding_bag.padding_idx", rand(5, 3), torch.tensor([4, 1, 1, 0, 4, 4]), torch.tensor([0, 3]), False, 0, False, None,
            False, padding)
    add("var.correction", rand(4, 6), [1], correction=0.5)
    add("std_mean.correction", rand(4, 6), [0], correction=1.25)
    q, k, v = rand(4, 3, 8), rand(2, 4, 6, 8), rand(2, 4, 6, 8)
    add("scaled_dot_product_attention", q, k, v, None, 0.0, True)
    add("scaled_dot_product_attention", rand(1, 4, 3, 8), rand(1, 2, 6, 8), rand(1, 1, 6, 8), enable_gqa=True)
    add("gather", rand(5), 0, torch.zeros(2, 0, dtype=torch.int64))
