"""The package with PyTorch: expected values are those of the exported module, run eagerly on equal arguments."""

import copy
import os
import tempfile
import unittest

import numpy as np

import smelt
from support import bundle, scratch

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None


def compiled(module, *args, kwargs=None, dynamic_shapes=None):
    program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    return smelt.load(smelt.compile(program, options=["--cache-mode=off"]))


def memory(*tensors):
    """Which of these share a storage, as sets of positions."""
    groups = {}
    for i, t in enumerate(tensors):
        groups.setdefault(t.untyped_storage().data_ptr(), set()).add(i)
    return sorted(map(sorted, groups.values()))


class TorchTest(unittest.TestCase):
    def check(self, module, args, kwargs=None, calls=1):
        """Calls the module and its compiled form on equal arguments: all that a caller sees must be equal."""
        kwargs = kwargs or {}
        eager = copy.deepcopy(module)
        model = compiled(module, *copy.deepcopy(args), kwargs=copy.deepcopy(kwargs) or None)
        want_args, got_args = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        for _ in range(calls):
            with torch.no_grad():
                want = eager(*want_args[0], **want_args[1])
            got = model(*got_args[0], **got_args[1])
            self.same(want, got)
            self.same(want_args, got_args)
        for name, buffer in eager.named_buffers():
            np.testing.assert_allclose(model.state[name], buffer.numpy(), rtol=1e-5, atol=1e-6)
        wanted, gotten = self.tensors((want, want_args)), self.tensors((got, got_args))
        self.assertEqual(memory(*wanted), memory(*gotten))
        return model, got, got_args

    def tensors(self, tree):
        return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor) and t.numel()]

    def same(self, want, got):
        self.assertIs(type(want), type(got))
        if isinstance(want, torch.Tensor):
            self.assertEqual((want.shape, want.dtype), (got.shape, got.dtype))
            torch.testing.assert_close(got, want)
        elif isinstance(want, dict):
            self.assertEqual(list(want), list(got))
            for key in want:
                self.same(want[key], got[key])
        elif isinstance(want, (tuple, list)):
            self.assertEqual(len(want), len(got))
            for a, b in zip(want, got):
                self.same(a, b)
        else:
            self.assertEqual(want, got)

    def test_tensors_are_passed_without_a_copy_and_written(self):
        class M(torch.nn.Module):
            def forward(self, x, y):
                x[:, 0] = y.sum(1)
                return {"x": x, "row": x[1], "t": y.t(), "new": x @ y.t()}

        _, got, (args, _) = self.check(M(), (torch.randn(3, 4), torch.randn(3, 4)))
        self.assertIs(got["x"], args[0])
        self.assertEqual(got["row"].data_ptr(), args[0][1].data_ptr())

    def test_views_of_one_storage_are_views_of_one_storage(self):
        class M(torch.nn.Module):
            def forward(self, x, y):
                x.mul_(2)
                y.add_(1)
                return x + 1, y

        model = compiled(M(), torch.zeros(4), torch.zeros(4))
        for a, b in ((slice(0, 4), slice(4, 8)), (slice(0, 4), slice(2, 6)), (slice(0, 4), slice(0, 4))):
            want, got = torch.arange(8.0), torch.arange(8.0)
            with torch.no_grad():
                expected = M()(want[a], want[b])
            results = model(got[a], got[b])
            torch.testing.assert_close(got, want)
            torch.testing.assert_close(results, expected)

    def test_one_tensor_twice(self):
        class M(torch.nn.Module):
            def forward(self, x, y):
                x.mul_(3)
                return y + 1

        model = compiled(M(), torch.ones(4), torch.ones(4))
        x = torch.ones(4)
        torch.testing.assert_close(model(x, x), torch.full((4,), 4.0))
        torch.testing.assert_close(x, torch.full((4,), 3.0))

    def test_shape_changes_in_place_are_seen(self):
        class M(torch.nn.Module):
            def forward(self, x):
                x.t_()
                x.mul_(2)
                return x

        model = compiled(M(), torch.randn(2, 3))
        x = torch.arange(6.0).reshape(2, 3)
        out = model(x)
        self.assertIs(out, x)
        self.assertEqual((x.shape, x.stride()), ((3, 2), (1, 3)))
        torch.testing.assert_close(x, torch.arange(6.0).reshape(2, 3).t() * 2)

    def test_dtypes(self):
        class M(torch.nn.Module):
            def forward(self, x):
                return x.clone(), x.view(-1)

        for dtype in (
            torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
            torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
        ):  # fmt: skip
            with self.subTest(dtype=dtype):
                self.check(M(), (torch.arange(6).reshape(2, 3).to(dtype),))

    def test_a_decoder_keeps_its_cache(self):
        class Cache(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("cache", torch.zeros(4, 3))
                self.register_buffer("length", torch.zeros((), dtype=torch.int64))

            def forward(self, x):
                self.cache.index_copy_(0, self.length.reshape(1), x.reshape(1, 3))
                self.length.add_(1)
                return {"logits": self.cache.sum(0), "cache": self.cache}

        model, got, _ = self.check(Cache(), (torch.randn(3),), calls=3)
        self.assertEqual(model.state["length"], 3)
        model.reset()
        self.assertEqual(model.state["length"], 0)
        torch.testing.assert_close(got["cache"], torch.zeros(4, 3))  # the very buffer

    def test_numbers_strings_and_keywords(self):
        class M(torch.nn.Module):
            def forward(self, x, pair, *, scale):
                return [x * scale, {"k": (pair[0] + pair[1]["z"], None)}], x.shape[1]

        self.check(M(), (torch.randn(2, 3), (torch.randn(3), {"z": torch.randn(3)})), {"scale": 0.5})

    def test_registered_classes_become_records(self):
        import dataclasses

        @dataclasses.dataclass
        class Out:
            logits: torch.Tensor
            loss: object = None

        torch.export.register_dataclass(Out, serialized_type_name=f"smelt.tests.Out{id(Out)}")

        class M(torch.nn.Module):
            def forward(self, x):
                return Out(x + 1)

        out = compiled(M(), torch.zeros(2))(torch.ones(2))
        torch.testing.assert_close(out.logits, torch.full((2,), 2.0))
        self.assertIsNone(out.loss)

    def test_gradients_are_not_lost_in_silence(self):
        class M(torch.nn.Module):
            def forward(self, x):
                return x * 2

        model = compiled(M(), torch.ones(3))
        x = torch.ones(3, requires_grad=True)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x" requires grad'):
            model(x)
        with torch.no_grad():
            torch.testing.assert_close(model(x), torch.full((3,), 2.0))
        with torch.inference_mode():
            torch.testing.assert_close(model(x), torch.full((3,), 2.0))
        torch.testing.assert_close(model(x.detach()), torch.full((3,), 2.0))
        parameter = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        torch.testing.assert_close(model(parameter), torch.full((3,), 2.0))

    def test_what_a_model_writes_counts_for_autograd(self):
        class M(torch.nn.Module):
            def forward(self, x):
                return x.add_(1)

        model = compiled(M(), torch.ones(3))
        x, w = torch.ones(3), torch.ones(3, requires_grad=True)
        product = w * x
        model(x)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            product.sum().backward()

    def test_lazy_conjugates_and_negatives_are_resolved(self):
        class M(torch.nn.Module):
            def forward(self, x):
                return x * 2

        model = compiled(M(), torch.randn(3, dtype=torch.complex64))
        x = torch.randn(3, dtype=torch.complex64)
        torch.testing.assert_close(model(x.conj()), (x.conj() * 2).resolve_conj())
        real = compiled(M(), torch.randn(3))
        imag = x.conj().imag
        self.assertTrue(imag.is_neg())
        torch.testing.assert_close(real(imag), (imag * 2).resolve_neg())

    def test_what_is_no_dense_tensor_of_the_cpu_is_refused(self):
        class M(torch.nn.Module):
            def forward(self, x):
                return x * 2

        model = compiled(M(), torch.randn(2, 2))
        for x in (torch.randn(2, 2).to_sparse(), torch.randn(2, 2, device="meta")):
            with self.assertRaisesRegex(smelt.InvalidArgument, '"x"'):
                model(x)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x" is a tensor of float64, expected float32'):
            model(torch.randn(2, 2, dtype=torch.float64))
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x" has shape'):
            model(torch.randn(2))

    def test_numpy_and_torch_may_be_mixed(self):
        model = smelt.load(bundle("written"))
        x, y = np.zeros((2, 3), np.float32), torch.arange(6.0).reshape(2, 3)
        out, transposed, same, _ = model(x, y)
        self.assertIs(out, x)
        self.assertIs(same, y)
        self.assertEqual(transposed.untyped_storage().data_ptr(), y.untyped_storage().data_ptr())
        numpy_only = smelt.load(bundle("written"), arrays="numpy")
        self.assertIs(type(numpy_only(x, y)[1]), np.ndarray)
        torch_only = smelt.load(bundle("nested"), arrays="torch")
        self.assertIs(type(torch_only.state["calls"]), torch.Tensor)
        k = [np.zeros((2, 4), np.float32), np.zeros(4, np.float32)]
        self.assertIs(type(torch_only(np.zeros((2, 4), np.float32), {"k": k})["logits"]), torch.Tensor)
        torch_only.state["calls"] = torch.tensor(5)
        self.assertEqual(torch_only.state["calls"], 5)

    def test_compile_takes_an_exported_program(self):
        class M(torch.nn.Module):
            def forward(self, x):
                return x.relu()

        program = torch.export.export(M(), (torch.randn(3),))
        with tempfile.TemporaryDirectory() as folder:
            path = smelt.compile(program, os.path.join(folder, "m.smb"), target=["x86-64-v2", "x86-64-v3"])
            self.assertEqual(smelt.load(path).signature.targets, ("x86-64-v2", "x86-64-v3"))
        with self.assertRaises(smelt.Error):
            smelt.compile(program, scratch("no/such/folder.smb"))


if __name__ == "__main__":
    unittest.main()
