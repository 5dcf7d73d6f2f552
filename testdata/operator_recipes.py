"""Calls of operators for which neither PyTorch's samples nor arguments made at random will do.

    for name, args, kwargs in recipes(): ...   # aten operators by their full names; arguments made anew each time
"""

import torch

from op_table import find_operator

TRIED = 4  # times each of an operator's other forms is called


class Variants:
    """Calls what was called once more by the operator's other forms: out=, in place, functional, _copy."""

    def __init__(self):
        self.tried = {}

    def run(self, note, op, args, kwargs, result):
        schema = op._schema
        if not schema.name.startswith("aten::"):
            return
        base = schema.name[6:]
        given = {a.name: v for a, v in zip(schema.arguments, args)} | kwargs
        given = {n: v for n, v in given.items() if not n.startswith("out") or n == "output_size"}
        results = result if isinstance(result, (list, tuple)) and len(schema.returns) > 1 else [result]
        for name in {base, base + "_", base if base.endswith("__") else base.rstrip("_"), base + "_copy"}:
            packet = getattr(torch.ops.aten, name, None)
            for overload in (packet.overloads() if packet is not None else ()):
                other = getattr(packet, overload)
                key = str(other._schema)
                values = self.arguments(other._schema, given, results)
                if other is op or values is None or self.tried.get(key, 0) >= TRIED:
                    continue
                self.tried[key] = self.tried.get(key, 0) + 1
                try:
                    with torch.no_grad():
                        note(other, (), values)
                except Exception:  # many forms take other types
                    pass

    @staticmethod
    def arguments(schema, given, results):
        values = {}
        tensors = [t for t in results if isinstance(t, torch.Tensor)]
        lists = [list(r) for r in results if isinstance(r, (list, tuple))]
        for a in schema.arguments:
            written = a.alias_info is not None and a.alias_info.is_write and a.kwarg_only
            if a.name in given:
                values[a.name] = given[a.name]
            elif written and "List" in str(a.real_type) and lists:
                values[a.name] = lists.pop(0)
            elif written and tensors:
                values[a.name] = tensors.pop(0)
            elif not a.has_default_value():
                return None
        if len(given) > len(schema.arguments):
            return None
        return torch.utils._pytree.tree_map(
            lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, values)


def run_recipes(watch):
    for name, args, kwargs in recipes():
        op = find_operator(name[6:])
        if op is None:
            continue
        try:
            with torch.no_grad():
                watch.run(op, args, kwargs)
        except Exception:  # not every layout has every operator
            pass


def r(*shape):
    """A tensor whose elements all differ from 0."""
    return torch.arange(1, 1 + max(1, torch.Size(shape).numel()), dtype=torch.float32)[:torch.Size(shape).numel()].reshape(
        shape) / 7 if shape else torch.tensor(0.5)


def i(*values):
    return torch.tensor(values, dtype=torch.int64)


def coo():
    return torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0], [0.0, 0.0, 1.0]]).to_sparse().coalesce()


def csr():
    return coo().to_dense().to_sparse_csr()


def csc():
    return coo().to_dense().to_sparse_csc()


def bsr():
    return r(4, 4).to_sparse_bsr((2, 2))


def bsc():
    return r(4, 4).to_sparse_bsc((2, 2))


def q(*shape):
    return torch.quantize_per_tensor(r(*shape), 0.1, 10, torch.quint8)


def qc():
    return torch.quantize_per_channel(r(2, 3), torch.tensor([0.1, 0.2], dtype=torch.float64), i(0, 1), 0, torch.quint8)


def nested():
    return torch.nested.nested_tensor([r(2, 3), r(4, 3)])


def jagged():
    return torch.nested.nested_tensor([r(2, 3), r(4, 3)], layout=torch.jagged)


def recipes():
    out = []

    def add(name, *args, **kwargs):
        out.append(("aten::" + name, args, kwargs))

    # Sparse tensors.
    for name in ("_indices", "_values", "indices", "values", "_nnz", "_dimI", "_dimV", "sparse_dim", "dense_dim", "is_coalesced",
                 "coalesce", "_coalesce", "_indices_copy", "_values_copy", "indices_copy", "values_copy", "_to_dense",
                 "to_dense", "_sparse_sum", "clone", "neg", "detach", "alias", "abs", "zero_", "neg_", "t",
                 "_coalesced"):
        add(name, coo(), **({"coalesced": False} if name == "_coalesced" else {}))
    add("coalesce", torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2)))
    add("_coalesce", torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2)))
    add("_coalesced_", coo(), False)
    for t in (csr, csc, bsr, bsc):
        for name in ("values", "values_copy", "clone", "neg", "detach", "_to_dense", "to_dense", "alias"):
            add(name, t())
        for name in ("crow_indices", "col_indices", "ccol_indices", "row_indices"):
            add(name, t())
            add(name + "_copy", t())
        for name in ("to_sparse", "to_sparse_csr", "to_sparse_csc", "_to_sparse_csr", "_to_sparse_csc"):
            add(name, t())
        for name in ("to_sparse_bsr", "to_sparse_bsc", "_to_sparse_bsr", "_to_sparse_bsc"):
            add(name, t(), [2, 2])
        add("_to_sparse", t(), layout=torch.sparse_coo)
    for name in ("to_sparse", "to_sparse_csr", "to_sparse_csc", "_to_sparse_csr", "_to_sparse_csc"):
        add(name, coo())
        add(name, r(4, 4))
    for name in ("to_sparse_bsr", "to_sparse_bsc", "_to_sparse_bsr", "_to_sparse_bsc"):
        add(name, r(4, 4), [2, 2])
    add("to_sparse.sparse_dim", r(3, 3), 1)
    add("_to_sparse.sparse_dim", r(3, 3), 1)
    at, v = i(0, 1, 2, 1).reshape(2, 2), r(2)
    for name in ("sparse_coo_tensor.indices_size", "_sparse_coo_tensor_unsafe"):
        add(name, at, v, [3, 3])
    add("sparse_coo_tensor.indices", at, v)
    add("_sparse_coo_tensor_with_dims_and_tensors", 2, 0, [3, 3], at, v, dtype=torch.float32, layout=torch.sparse_coo,
        device=torch.device("cpu"), pin_memory=False)
    add("_sparse_coo_tensor_with_dims", 2, 0, [3, 3], dtype=torch.float32, layout=torch.sparse_coo, device=torch.device("cpu"))
    add("sparse_coo_tensor.size", [3, 3], dtype=torch.float32, layout=torch.sparse_coo, device=torch.device("cpu"))
    rows, cols, values = i(0, 1, 3), i(0, 1, 2), r(3)
    for name in ("sparse_csr_tensor.crow_col_value_size", "_sparse_csr_tensor_unsafe", "sparse_csc_tensor.ccol_row_value_size",
                 "_sparse_csc_tensor_unsafe"):
        add(name, rows, cols, values, [2, 3] if "csr" in name else [3, 2], dtype=torch.float32)
    add("sparse_csr_tensor.crow_col_value", rows, cols, values, dtype=torch.float32)
    add("sparse_csc_tensor.ccol_row_value", rows, cols, values, dtype=torch.float32)
    for layout, size in ((torch.sparse_csr, [2, 3]), (torch.sparse_csc, [3, 2])):
        add("sparse_compressed_tensor.comp_plain_value_size", rows, cols, values, size, dtype=torch.float32, layout=layout)
        add("sparse_compressed_tensor.comp_plain_value", rows, cols, values, dtype=torch.float32, layout=layout)
        add("_sparse_compressed_tensor_unsafe", rows, cols, values, size, dtype=torch.float32, layout=layout)
    blocks = r(2, 2, 2)
    for name in ("sparse_bsr_tensor.crow_col_value_size", "_sparse_bsr_tensor_unsafe", "sparse_bsc_tensor.ccol_row_value_size",
                 "_sparse_bsc_tensor_unsafe"):
        add(name, i(0, 1, 2), i(0, 1), blocks, [4, 4], dtype=torch.float32)
    add("sparse_bsr_tensor.crow_col_value", i(0, 1, 2), i(0, 1), blocks, dtype=torch.float32)
    add("sparse_bsc_tensor.ccol_row_value", i(0, 1, 2), i(0, 1), blocks, dtype=torch.float32)
    add("_sparse_compressed_tensor_with_dims", 3, 0, [3, 3], [], torch.int64, dtype=torch.float32, layout=torch.sparse_csr)
    add("_validate_sparse_csr_tensor_args", rows, cols, values, [2, 3])
    add("_validate_sparse_csc_tensor_args", rows, cols, values, [3, 2])
    add("_validate_sparse_coo_tensor_args", at, v, [3, 3])
    add("_validate_sparse_bsr_tensor_args", i(0, 1, 2), i(0, 1), blocks, [4, 4])
    add("_validate_sparse_bsc_tensor_args", i(0, 1, 2), i(0, 1), blocks, [4, 4])
    add("_validate_sparse_compressed_tensor_args", rows, cols, values, [2, 3], torch.sparse_csr)
    add("_validate_compressed_sparse_indices", True, rows, cols, 2, 3, 3)
    add("_convert_indices_from_csr_to_coo", i(0, 1, 3), i(0, 1, 2))
    for name in ("_sparse_softmax.int", "_sparse_log_softmax.int"):
        add(name, coo(), 1)
    for name in ("_sparse_softmax", "_sparse_log_softmax"):
        add(name, coo(), 1, False)
        add(name + "_backward_data", coo(), coo(), 1, coo())
    for name in ("_sparse_sum.dim", ):
        add(name, coo(), [1])
    add("_sparse_sum.dtype", coo(), dtype=torch.float64)
    add("_sparse_sum.dim_dtype", coo(), [0], dtype=torch.float64)
    add("_sparse_sum_backward", r(), coo(), [0, 1])
    add("_sparse_csr_sum.dim_dtype", csr(), [0], True)
    add("_sparse_csr_prod.dim_dtype", csr(), [0], True)
    add("_sparse_sparse_matmul", coo(), coo())
    add("sparse_mask", r(3, 3), coo())
    add("_sparse_mask_projection", coo(), coo())
    add("sparse_resize_", coo(), [4, 4], 2, 0)
    add("sparse_resize_and_clear_", coo(), [4, 4], 2, 0)
    add("sparse_resize", coo(), [4, 4], 2, 0)
    add("sparse_resize_and_clear", coo(), [4, 4], 2, 0)
    add("resize_as_sparse_", coo(), coo())
    add("resize_as_sparse", coo(), coo())
    add("copy_sparse_to_sparse_", coo(), coo())
    add("copy_sparse_to_sparse", coo(), coo())
    add("copy_", coo(), coo())
    add("_sparse_broadcast_to", torch.tensor([[1.0, 0.0, 2.0]]).to_sparse(), [3, 3])
    add("_sparse_broadcast_to_copy", torch.tensor([[1.0, 0.0, 2.0]]).to_sparse(), [3, 3])
    add("hspmm", coo(), r(3, 2))
    add("smm", coo(), r(3, 2))
    add("sspaddmm", coo(), coo(), r(3, 3))
    add("sparse_sampled_addmm", csr(), r(3, 2), r(2, 3))
    add("_sparse_addmm", r(3, 2), coo(), r(3, 2))
    add("add.Tensor", coo(), coo())
    add("add_.Tensor", coo(), coo())
    add("mul.Tensor", coo(), coo())
    add("mm", coo(), r(3, 2))
    for flag in (True, False):
        add("gather_backward", r(2, 3), r(2, 3), 1, i(0, 1, 2, 2, 1, 0).reshape(2, 3), flag)
        add("embedding_backward", r(2, 3), i(0, 1), 4, -1, False, flag)
    add("_gather_sparse_backward", r(2, 3), 1, i(0, 1, 2, 2, 1, 0).reshape(2, 3), r(2, 3))
    add("embedding_sparse_backward", r(2, 3), i(0, 1), 4, -1, False)
    for mode in (0, 1):
        add("_embedding_bag_sparse_backward", r(2, 3), i(0, 1), i(0, 1), i(0, 1), i(1, 1), 4, False, mode, None)
    # Quantized tensors.
    for name in ("int_repr", "q_scale", "q_zero_point", "qscheme", "dequantize.self", "clone", "detach", "alias", "relu", "relu_"):
        add(name, q(2, 3))
    for name in ("q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis", "int_repr", "dequantize.self"):
        add(name, qc())
    add("dequantize.self", r(2, 3))
    add("dequantize.self", r(2, 3).half())
    add("dequantize.tensors", [q(2), q(3)])
    add("quantize_per_tensor", r(2, 3), 0.1, 0, torch.quint8)
    add("quantize_per_tensor.tensor_qparams", r(2, 3), torch.tensor(0.1), torch.tensor(0), torch.quint8)
    add("quantize_per_tensor.tensors", [r(2), r(3)], r(2), i(0, 0), torch.quint8)
    add("quantize_per_tensor_dynamic", r(2, 3), torch.quint8, False)
    add("quantize_per_channel", r(2, 3), r(2), i(0, 0), 0, torch.quint8)
    add("_make_per_tensor_quantized_tensor", r(2, 3).to(torch.uint8), 0.1, 0)
    add("_make_per_channel_quantized_tensor", r(2, 3).to(torch.uint8), r(2), i(0, 0), 0)
    add("_empty_affine_quantized", [2, 3], dtype=torch.quint8, scale=0.1, zero_point=0)
    add("_empty_per_channel_affine_quantized", [2, 3], scales=r(2).double(), zero_points=i(0, 0), axis=0, dtype=torch.quint8)
    add("empty_quantized", [2, 3], q(2, 3))
    add("quantized_max_pool1d", q(1, 2, 4), [2])
    add("quantized_max_pool2d", q(1, 2, 4, 4), [2, 2])
    add("quantized_max_pool3d", q(1, 2, 4, 4, 4), [2, 2, 2])
    add("quantized_batch_norm", q(1, 2, 4, 4), r(2), r(2), r(2), r(2), 1e-5, 0.1, 10)
    add("choose_qparams_optimized", r(16), 16, 8, 0.5, 8)
    add("fake_quantize_per_tensor_affine", r(2, 3), 0.1, 0, 0, 255)
    # Nested tensors.
    for name in ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets", "clone", "neg", "detach",
                 "_nested_get_values", "values"):
        add(name, nested())
    for name in ("_nested_get_values", "_nested_get_offsets", "_nested_get_lengths", "_nested_get_ragged_idx",
                 "_nested_get_min_seqlen", "_nested_get_max_seqlen", "values"):
        add(name, jagged())
    add("to_padded_tensor", nested(), 0.0)
    add("nested_to_padded_tensor", nested(), 0.0)
    add("_nested_view_from_buffer", r(6), i(2, 1, 2, 2).reshape(2, 2), i(1, 1, 2, 1).reshape(2, 2), i(0, 2))
    add("_nested_view_from_buffer_copy", r(6), i(2, 1, 2, 2).reshape(2, 2), i(1, 1, 2, 1).reshape(2, 2), i(0, 2))
    add("_nested_from_padded", r(2, 3, 4), i(2, 4, 3, 4).reshape(2, 2))
    add("_nested_from_padded_and_nested_example", r(2, 4, 3), nested())
    add("_nested_sum_backward", r(2, 1), nested(), [1], True)
    add("_nested_tensor_from_mask", r(2, 3, 4), torch.tensor([[True, True, False], [True, True, True]]))
    add("_nested_tensor_from_tensor_list", [r(2, 3), r(4, 3)])
    add("_nested_tensor_softmax_with_shape", nested(), nested())
    # Recurrent networks.
    x, h = r(3, 1, 2), r(1, 1, 2)
    weights = lambda n: [r(2 * n, 2), r(2 * n, 2), r(2 * n), r(2 * n)]  # noqa: E731
    for dropout, train in ((0.0, False), (0.5, True), (0.5, False)):
        two = lambda n: weights(n) + weights(n)  # noqa: E731
        h2 = r(2, 1, 2)
        add("lstm.input", x, [h2, h2.clone()], two(4), True, 2, dropout, train, False, False)
        add("gru.input", x, h2, two(3), True, 2, dropout, train, False, False)
        add("rnn_tanh.input", x, h2, two(1), True, 2, dropout, train, False, False)
        add("rnn_relu.input", x, h2, two(1), True, 2, dropout, train, False, False)
        data, sizes = r(3, 2), i(1, 1, 1)
        add("lstm.data", data, sizes, [h2, h2.clone()], two(4), True, 2, dropout, train, False)
        add("gru.data", data, sizes, h2, two(3), True, 2, dropout, train, False)
        add("rnn_tanh.data", data, sizes, h2, two(1), True, 2, dropout, train, False)
        add("rnn_relu.data", data, sizes, h2, two(1), True, 2, dropout, train, False)
    one = r(1, 2)
    add("lstm_cell", one, [one.clone(), one.clone()], *weights(4))
    add("gru_cell", one, one.clone(), *weights(3))
    add("rnn_tanh_cell", one, one.clone(), *weights(1))
    add("rnn_relu_cell", one, one.clone(), *weights(1))
    add("_thnn_differentiable_lstm_cell_backward", one, one, r(1, 8), r(1, 8), r(8), r(8), one, one)
    add("_thnn_differentiable_gru_cell_backward", one, r(1, 6), r(1, 6), one, r(6), r(6))
    # Convolutions.
    image, kernel = r(1, 2, 4, 4), r(3, 2, 1, 1)
    add("_convolution.deprecated", image, kernel, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, False)
    add("_slow_conv2d_forward", image, kernel, [1, 1], None, [1, 1], [0, 0])
    add("thnn_conv2d", image, kernel, [1, 1])
    add("_slow_conv2d_backward.output_mask", r(1, 3, 4, 4), image, kernel, [1, 1], [1, 1], [0, 0], [True, True, True])
    add("slow_conv_dilated2d", image, kernel, [1, 1])
    add("slow_conv_transpose2d", image, r(2, 3, 1, 1), [1, 1])
    add("slow_conv_transpose2d", image[0], r(2, 3, 1, 1), [1, 1])
    volume = r(1, 2, 3, 4, 4)
    add("slow_conv3d", volume, r(3, 2, 1, 1, 1), [1, 1, 1])
    add("slow_conv3d_forward", volume, r(3, 2, 1, 1, 1), [1, 1, 1], None, [1, 1, 1], [0, 0, 0])
    add("slow_conv_dilated3d", volume, r(3, 2, 1, 1, 1), [1, 1, 1])
    add("slow_conv_transpose3d", volume, r(2, 3, 1, 1, 1), [1, 1, 1])
    add("conv_tbc", r(3, 1, 2), r(1, 2, 4), r(4))
    add("_nnpack_spatial_convolution", image, kernel, None, [0, 0])
    add("convolution", image, kernel, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    add("convolution_backward", r(1, 3, 4, 4), image, kernel, [0], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False])
    add("max_pool2d_with_indices_backward", r(1, 2, 2, 2), image, [2, 2], [2, 2], [0, 0], [1, 1], False,
        torch.zeros(1, 2, 2, 2, dtype=torch.int64))
    add("upsample_nearest3d", volume, [3, 4, 4])
    add("upsample_trilinear3d", volume, [3, 4, 4], False)
    add("_upsample_nearest_exact3d", volume, [3, 4, 4])
    add("_upsample_bicubic2d_aa_backward", r(1, 2, 4, 4), [4, 4], [1, 2, 4, 4], False)
    add("_upsample_lanczos2d_aa_backward", r(1, 2, 4, 4), [4, 4], [1, 2, 4, 4], False)
    add("affine_grid_generator", r(1, 2, 3), [1, 1, 2, 2], False)
    add("affine_grid_generator_backward", r(1, 2, 2, 2), [1, 1, 2, 2], False)
    grid = r(1, 4, 4, 2)
    add("_grid_sampler_2d_cpu_fallback", image, grid, 0, 0, False)
    add("_grid_sampler_2d_cpu_fallback_backward", image.clone(), image, grid, 0, 0, False)
    add("grid_sampler_2d_backward", image.clone(), image, grid, 0, 0, False, [True, True])
    add("grid_sampler_3d_backward", volume.clone(), volume, r(1, 3, 4, 4, 3), 0, 0, False, [True, True])
    # Attention.
    heads = r(1, 2, 4, 4)
    for dropout in (0.0, 0.5):
        add("scaled_dot_product_attention", heads, heads.clone(), heads.clone(), None, dropout)
        add("_scaled_dot_product_attention_math", heads, heads.clone(), heads.clone(), None, dropout)
        add("_scaled_dot_product_flash_attention_for_cpu", heads, heads.clone(), heads.clone(), 0.0)
    add("_transform_bias_rescale_qkv", r(1, 2, 12), r(12), 2)
    add("_native_multi_head_attention", r(1, 2, 4), r(1, 2, 4), r(1, 2, 4), 4, 2, r(12, 4), r(12), r(4, 4), r(4))
    add("_transformer_encoder_layer_fwd", r(1, 2, 4), 4, 2, r(12, 4), r(12), r(4, 4), r(4), False, False, 1e-5, r(4), r(4), r(4),
        r(4), r(8, 4), r(8), r(4, 8), r(4))
    # Random.
    generator = torch.Generator().manual_seed(1)
    for training in (True, False):
        add("rrelu", r(3), 0.1, 0.3, training)
        add("rrelu_", -r(3), 0.1, 0.3, training)
        add("rrelu_with_noise", -r(3), r(3), 0.1, 0.3, training)
        add("rrelu_with_noise_", -r(3), r(3), 0.1, 0.3, training)
        add("rrelu_with_noise_functional", -r(3), r(3), 0.1, 0.3, training)
        for p in (0.0, 0.5, 1.0):
            for name in ("dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout", "alpha_dropout_",
                         "feature_alpha_dropout", "feature_alpha_dropout_", "native_dropout"):
                add(name, r(2, 3), p, training)
    add("_fused_dropout", r(3), 0.5)
    add("bernoulli.p", r(3), 0.5, generator=generator)
    # Others.
    add("_int_mm", torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8))
    add("_weight_int8pack_mm", r(3, 16), torch.ones(8, 16, dtype=torch.int8), r(8))
    add("linalg_cond.p_str", r(2, 2), "fro")
    add("linalg_norm.ord_str", r(2, 2), "nuc")
    add("linalg_norm.ord_str", r(2, 2), "fro")
    add("native_norm", r(3), 2)
    add("native_norm.ScalarOpt_dim_dtype", r(2, 3), 2, [1], False, torch.float32)
    add("nll_loss2d", r(1, 2, 2, 2), torch.zeros(1, 2, 2, dtype=torch.int64))
    add("_fw_primal_copy", r(3), 0)
    add("_pin_memory", r(3))
    add("_resize_output_", r(3), [2], torch.device("cpu"))
    add("_resize_output", r(3), [2], torch.device("cpu"))
    add("_copy_from", r(3), r(3))
    add("_copy_from_and_resize", r(3), r(3))
    add("set_.source_Storage", r(3), r(4).untyped_storage())
    add("set_.source_Storage_storage_offset", r(3), r(4).untyped_storage(), 0, [2], [1])
    add("set.source_Storage", r(3), r(4).untyped_storage())
    add("set.source_Storage_storage_offset", r(3), r(4).untyped_storage(), 0, [2], [1])
    add("as_tensor.list", [1.0, 2.0])
    add("tensor", [1.0, 2.0])
    add("einsum", "ij->ij", [r(2, 3)])
    add("einsum", "ij->ji", [r(2, 3)])
    add("einsum", "ij,jk->ik", [r(2, 3), r(3, 2)])
    add("cartesian_prod", [r(3)])
    add("chain_matmul", [r(2, 2)])
    add("_add_batch_dim", r(2, 3), 0, 1)
    add("native_batch_norm_backward", r(1, 2, 3), r(1, 2, 3), r(2), r(2), r(2), r(2), r(2), True, 1e-5, [True, True, True])
    add("native_group_norm_backward", r(1, 2, 3), r(1, 2, 3), r(1, 1), r(1, 1), r(2), 1, 2, 3, 1, [True, True, True])
    add("_batch_norm_impl_index_backward", 0, r(1, 2, 3), r(1, 2, 3), r(2), r(2), r(2), r(2), r(2), True, 1e-5,
        [True, True, True], torch.empty(0, dtype=torch.uint8))
    add("_fused_rms_norm_backward", r(2, 3), r(2, 3), [3], r(2, 1), r(3), [True, True])
    add("_ctc_loss", torch.log_softmax(r(4, 1, 3), 2), i(1, 2).reshape(1, 2), [4], [2])
    add("_ctc_loss.Tensor", torch.log_softmax(r(4, 1, 3), 2), i(1, 2).reshape(1, 2), i(4), i(2))
    add("_amp_update_scale_", r(), torch.tensor(1, dtype=torch.int32), r(), 2.0, 0.5, 10)
    add("_amp_foreach_non_finite_check_and_unscale_", [r(3)], torch.zeros(1), torch.ones(1))
    add("_weight_int8pack_mm", r(2, 16).bfloat16(), torch.ones(16, 16, dtype=torch.int8), r(16).bfloat16())
    add("_masked_softmax", r(2, 3), torch.zeros(2, 3, dtype=torch.bool), 1, 1)
    add("mm.dtype", r(2, 2), r(2, 2), torch.float32)
    return out
