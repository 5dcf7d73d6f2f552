"""Calls for make_op_answers.py: gradients that a training step's graph calls by name."""

import torch

from op_table import BF16, F32, F64, INF, add, ints, rand


def attention():
    mask = torch.where(rand(5, 6) > -1, 0.0, -INF)
    mask[2] = -INF  # a row that sees nothing
    for dtype, mask in ((F32, None), (F32, mask), (F64, None)):
        q, k, v, g = (rand(1, 2, n, 4, dtype=dtype) for n in (5, 6, 6, 5))
        for causal in (False, True) if mask is None else (False,):
            out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask)
            add("_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0.0, causal, attn_mask=mask)
            add("_scaled_dot_product_flash_attention_for_cpu_backward", g, q, k, v, out, sums, 0.0, causal, attn_mask=mask)


def convolutions():
    for spatial in (1, 2):
        one, size = [1] * spatial, [5] * spatial
        for transposed, groups, stride in ((False, 2, 1), (False, 4, 2), (True, 1, 2), (True, 2, 1)):
            x = rand(1, 4, *size)
            w = rand(4, 4 // groups, *[3] * spatial)
            args = ([stride] * spatial, one, one, transposed, [0] * spatial, groups)
            y = torch.ops.aten.convolution(x, w, None, *args)
            add("convolution_backward", rand(*y.shape), x, w, [4], *args, [True, True, True])


def pools():
    for dtype in (F32, BF16):
        x = rand(1, 2, 5, 7, dtype=dtype)
        for kernel, stride, padding, ceil, include, divisor in (
            ([2, 2], [2, 2], [0, 0], False, True, None), ([3, 3], [2, 2], [1, 1], False, False, None),
            ([3, 2], [2, 3], [1, 0], True, True, None), ([3, 3], [1, 1], [1, 1], False, True, 5)):
            y = torch.ops.aten.avg_pool2d(x, kernel, stride, padding, ceil, include, divisor)
            add("avg_pool2d_backward", rand(*y.shape, dtype=dtype), x, kernel, stride, padding, ceil, include, divisor)
        for size in ([1, 1], [2, 3], [6, 9]):
            add("_adaptive_avg_pool2d_backward", rand(1, 2, *size, dtype=dtype), x)
    v = rand(1, 2, 4, 5, 4)
    y = torch.ops.aten.avg_pool3d(v, [2, 2, 2], [2, 2, 2], [1, 1, 1])
    add("avg_pool3d_backward", rand(*y.shape), v, [2, 2, 2], [2, 2, 2], [1, 1, 1], False, True, None)
    add("_adaptive_avg_pool3d_backward", rand(1, 2, 2, 2, 2), v)
    y, at = torch.ops.aten.max_pool3d_with_indices(v, [2, 2, 2])
    add("max_pool3d_with_indices_backward", rand(*y.shape), v, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False, at)
    y, at = torch.ops.aten.adaptive_max_pool3d(v, [2, 2, 2])
    add("adaptive_max_pool3d_backward", rand(*y.shape), v, at)
    y, at = torch.ops.aten.adaptive_max_pool2d(v[0], [2, 2])
    add("adaptive_max_pool2d_backward", rand(*y.shape), v[0], at)


def resized():
    """Pads and interpolations."""
    for spatial in (1, 2, 3):
        x = rand(1, 2, *[4, 5, 6][:spatial])
        pad = [1, 2, 2, 0, 0, 3][:2 * spatial]
        for kind in ("reflection", "replication"):
            y = getattr(torch.ops.aten, f"{kind}_pad{spatial}d")(x, pad)
            add(f"{kind}_pad{spatial}d_backward", rand(*y.shape), x, pad)
        for out in ([8, 10, 12][:spatial], [7, 3, 9][:spatial])[spatial == 3:]:
            g = rand(1, 2, *out)
            for name in ("upsample_nearest", "_upsample_nearest_exact"):
                add(f"{name}{spatial}d_backward", g, out, list(x.shape))
            name = ("linear1d", "bilinear2d", "trilinear3d")[spatial - 1]
            for corners in (False, True):
                add(f"upsample_{name}_backward", g, out, list(x.shape), corners)
                if spatial == 2:
                    add("upsample_bicubic2d_backward", g, out, list(x.shape), corners)
                    add("_upsample_bilinear2d_aa_backward", g, out, list(x.shape), corners)
                    add("_upsample_bicubic2d_aa_backward", g, out, list(x.shape), corners)


def sampled():
    x, grid = rand(1, 2, 4, 5), rand(1, 3, 3, 2, low=-1.3, high=1.3)
    v, places = rand(1, 2, 3, 3, 3), rand(1, 2, 2, 2, 3, low=-1.3, high=1.3)
    for padding in (0, 1, 2):
        for corners in (False, True):
            for mode in (0, 1, 2):
                add("grid_sampler_2d_backward", rand(1, 2, 3, 3), x, grid, mode, padding, corners, [True, True])
            add("grid_sampler_3d_backward", rand(1, 2, 2, 2, 2), v, places, 0, padding, corners, [True, True])


def bags():
    w, at, starts = rand(7, 3), ints(6, high=7), torch.tensor([0, 2, 2, 5])
    for mode, scales, padding in ((0, None, -1), (1, None, -1), (1, None, 3), (0, rand(6), -1), (0, rand(6), 3)):
        add("_embedding_bag", w, at, starts, False, mode, False, scales, False, padding)
        _, bag, size, maxima = torch.ops.aten._embedding_bag(w, at, starts, False, mode, False, scales, False, padding)
        g = rand(4, 3)
        add("_embedding_bag_backward", g, at, starts, bag, size, maxima, 7,
            False, mode, False, scales, padding)
        if scales is not None:
            add("_embedding_bag_per_sample_weights_backward", g, w, at, starts, bag, mode, padding)


def maxima_of_bags():
    nan, at, starts = float("nan"), torch.tensor([5, 1, 1, 0, 3, 2, 6]), torch.tensor([0, 2, 2, 5])
    w = rand(7, 3)
    w[5, 0] = w[0, 1] = nan  # which a bag begins with, and which it comes upon
    w[1, 2] = -float("inf")
    add("_embedding_bag", w, at, starts, False, 2, False, None, False, 6)
    _, bag, size, maxima = torch.ops.aten._embedding_bag(w, at, starts, False, 2, False, None, False, 6)
    add("_embedding_bag_backward", rand(4, 3), at, starts, bag, size, maxima, 7, False, 2, False, None, 6)


def of_what_was_chosen():
    x, at = rand(3, 4), ints(3, 2, high=4)
    for keepdim in (False, True):
        places = x.max(1, keepdim=keepdim)[1]
        add("value_selecting_reduction_backward", rand(*places.shape), -1, places, [3, 4], keepdim)
    add("value_selecting_reduction_backward", rand(3, 4), 1, x.sort(1)[1], [3, 4], True)
    add("gather_backward", rand(3, 2), x, 1, at, False)
    add("index_select_backward", rand(3, 5), [3, 4], 1, ints(5, high=4))
    add("cummaxmin_backward", rand(3, 4), x, x.cummax(1)[1], 1)
    add("embedding_backward", rand(3, 2, 5), at, 7, 2, False, False)
    add("trace_backward", rand(), [3, 4])


def others():
    for dtype in (F32, BF16):
        x, g = rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype)
        add("glu_backward", g[:, :2], x, 1)
        add("log_sigmoid_forward", x)
        add("_prelu_kernel_backward", g, x, rand(1, 4, dtype=dtype))
    for reduction in (0, 1, 2):
        g = rand(3, 4) if reduction == 0 else rand()
        add("soft_margin_loss_backward", g, x.float(), torch.sign(rand(3, 4)), reduction)
        for p in (1, 2):
            g = rand(3) if reduction == 0 else rand()
            add("multi_margin_loss_backward", g, x.float(), ints(3, high=4), p, 0.7, rand(4), reduction)
    for p in (0.5, 1.0, 2.0, 3.0, float("inf")):
        a, b = rand(3, 4), rand(2, 4)
        add("_cdist_backward", rand(3, 2), a, b, p, torch.cdist(a, b, p))
    add("_trilinear", rand(3, 2), rand(4, 2, 5), rand(3, 5), [1, 3], [0], [1, 2], [2, 3])
    add("diagonal_backward", rand(3), [3, 5], 1, 0, 1)
    add("unfold_backward", rand(2, 3, 3), [2, 5], 1, 3, 1)
    add("masked_scatter_backward", rand(3, 4), rand(3, 4) > 0, [5, 4])
    for n in (0, 1):
        add("polygamma", n, rand(4, 5, low=-3, high=4))
