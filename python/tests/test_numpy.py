"""The package with numpy alone: expected values are arithmetic."""

import copy
import gc
import pickle
import threading
import unittest
import weakref

import numpy as np

import smelt
from support import bundle, scratch, text_bundle


class NestedTest(unittest.TestCase):
    """nested.pt2, of make_models.py."""

    def setUp(self):
        self.model = smelt.load(bundle("nested"))
        self.x = np.arange(8, dtype=np.float32).reshape(2, 4)
        self.k = [np.ones((2, 4), np.float32), np.full(4, 3, np.float32)]
        self.y = self.x * 2 + 1 - 3

    def test_results_have_the_users_structure(self):
        out = self.model(self.x, {"k": self.k}, scale=2.0, mode="sum")
        self.assertEqual(list(out), ["logits", "aux", "calls", "first"])
        np.testing.assert_array_equal(out["logits"], self.y)
        total, (rows, nothing) = out["aux"]
        np.testing.assert_allclose(total, self.y.sum(-1))
        self.assertEqual(rows, 2)
        self.assertIsNone(nothing)
        self.assertEqual(out["calls"], 1)
        self.assertIs(type(out["aux"]), tuple)
        self.assertIs(type(out["aux"][1]), list)

    def test_values_baked_in_at_export_need_not_be_given_and_others_are_refused(self):
        np.testing.assert_array_equal(self.model(self.x, {"k": self.k})["logits"], self.y)
        np.testing.assert_array_equal(self.model(parts={"k": self.k}, x=self.x)["logits"], self.y)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"scale" must have the value of the export: 2'):
            self.model(self.x, {"k": self.k}, scale=3.0)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"mode" must have the value of the export: "sum"'):
            self.model(self.x, {"k": self.k}, mode="mean")

    def test_sizes_vary(self):
        for rows in (1, 5, 2, 4096):
            x = np.ones((rows, 4), np.float32)
            out = self.model(x, {"k": [x, self.k[1]]})
            np.testing.assert_array_equal(out["logits"], x * 2 + x - 3)
            self.assertEqual(out["aux"][1][0], rows)

    def test_wrong_arguments_are_named(self):
        cases = [
            (lambda: self.model(), 'argument "x" is missing'),
            (lambda: self.model(self.x), 'argument "parts" is missing'),
            (lambda: self.model(self.x, {"k": self.k}, self.x), "takes 2 positional arguments"),
            (lambda: self.model(self.x, {"k": self.k}, x=self.x), '"x" is given twice'),
            (lambda: self.model(self.x, {"k": self.k}, bias=1), 'no argument "bias"; it has x, parts'),
            (lambda: self.model(self.x, part={"k": self.k}), 'no argument "part"; it has x, parts'),
            (lambda: self.model(self.x, {"z": self.k}), r'"parts" has the keys \[.z.\], expected \[.k.\]'),
            (lambda: self.model(self.x, self.k), '"parts" is list, expected a dict'),
            (lambda: self.model(self.x, {"k": self.k[:1]}), '"parts.k" has 1 items, expected 2'),
            (lambda: self.model(self.x, {"k": self.x}), '"parts.k" is ndarray, expected a list'),
            (
                lambda: self.model(self.x.astype(np.float64), {"k": self.k}),
                '"x" is an array of float64, expected float32',
            ),
            (lambda: self.model(self.x[0], {"k": self.k}), r'"x" has shape \[4\], expected \[s\d+ in 1..4096, 4\]'),
            (lambda: self.model(self.x[:, :3], {"k": self.k}), '"x" has sizes'),
            (lambda: self.model(self.x, {"k": [self.k[1], self.k[1]]}), '"parts.k.0" has shape'),
            (lambda: self.model("x", {"k": self.k}), '"x" is str'),
            (lambda: self.model(None, {"k": self.k}), '"x" is NoneType'),
            (lambda: self.model(np.ones((5000, 4), np.float32), {"k": self.k}), "4096"),
        ]
        for call, message in cases:
            with self.subTest(message), self.assertRaisesRegex(smelt.InvalidArgument, message):
                call()
        with self.assertRaises(ValueError):  # the closest builtin
            self.model(self.x)
        self.assertEqual(self.model(self.x, {"k": self.k})["calls"], 1)  # refused calls are none

    def test_lists_and_numbers_stand_for_arrays_that_are_only_read(self):
        out = self.model([[0, 1, 2, 3], [4, 5, 6, 7]], {"k": [self.k[0], [3.0, 3, 3, 3]]})
        np.testing.assert_array_equal(out["logits"], self.y)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x"'):
            self.model([["a"] * 4], {"k": self.k})
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x"'):
            self.model([[1j] * 4] * 2, {"k": self.k})

    def test_signature_says_it_all(self):
        s = self.model.signature
        self.assertEqual([a.path for a in s.arguments], ["x", "parts.k.0", "parts.k.1", "scale", "mode"])
        rows = s.arguments[0].shape[0]
        self.assertEqual((rows.min, rows.max, s.arguments[0].shape[1]), (1, 4096, 4))
        self.assertEqual(s.arguments[1].shape[0], rows)
        self.assertEqual((s.arguments[3].constant, s.arguments[3].value, s.arguments[4].value), (True, 2.0, "sum"))
        self.assertEqual([r.name for r in s.results], ["logits", "aux.0", "aux.1.0", "aux.1.1", "calls", "first"])
        self.assertEqual([r.kind for r in s.results], ["tensor", "tensor", "int", "none", "tensor", "tensor"])
        self.assertEqual((s.results[0].dtype, s.results[0].shape), ("float32", (rows, 4)))
        self.assertEqual((s.results[5].place, s.results[5].source), ("in argument", "x"))
        self.assertEqual([(t.name, t.mutable) for t in s.states], [("calls", True)])
        self.assertIn("'logits': float32[", str(s))
        self.assertIn("in 1..4096", str(s))

    def test_state_is_the_models_own_and_carries_over(self):
        for want in (1, 2, 3):
            self.assertEqual(self.model(self.x, {"k": self.k})["calls"], want)
        calls = self.model.state["calls"]
        self.assertEqual(calls, 3)
        calls[...] = 10  # the very memory
        self.assertEqual(self.model(self.x, {"k": self.k})["calls"], 11)
        self.assertEqual(calls, 11)
        other = self.model.clone()
        self.assertEqual(other(self.x, {"k": self.k})["calls"], 1)
        path = scratch("states.safetensors")
        self.model.state.save(path)
        other.state.load(path)
        self.assertEqual(other.state["calls"], 11)
        other.state["calls"] = np.int64(5)
        self.assertEqual(other(self.x, {"k": self.k})["calls"], 6)
        self.model.reset()
        self.assertEqual(calls, 0)
        self.assertEqual(list(self.model.state), ["calls"])
        with self.assertRaisesRegex(KeyError, "no state 'cache'; it has calls"):
            self.model.state["cache"]
        self.assertNotIn("cache", self.model.state)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"calls"'):
            self.model.state["calls"] = np.zeros(3, np.int64)

    def test_a_view_of_an_argument_shares_its_memory_and_keeps_it(self):
        first = self.model(self.x, {"k": self.k})["first"]
        self.assertTrue(np.shares_memory(first, self.x))
        self.x[0, 0] = 99
        self.assertEqual(first[0], 99)
        x = np.full((2, 4), 5, np.float32)
        gone = weakref.ref(x)
        first = self.model(x, {"k": self.k})["first"]
        del x
        gc.collect()
        self.assertIsNotNone(gone())
        np.testing.assert_array_equal(first, np.full(4, 5, np.float32))
        del first
        gc.collect()
        self.assertIsNone(gone())

    def test_results_outlive_the_model(self):
        out = self.model(self.x, {"k": self.k})
        calls = self.model.state["calls"]
        del self.model
        gc.collect()
        np.testing.assert_array_equal(out["logits"], self.y)
        self.assertEqual(calls, 1)
        out["logits"] += 1  # the caller's

    def test_arrays_in_other_layouts_are_read_as_they_are(self):
        want = self.y
        fortran = np.asfortranarray(self.x)
        reversed_rows = self.x[::-1].copy()[::-1]
        strided = np.zeros((2, 8), np.float32)[:, ::2]
        strided[...] = self.x
        raw = np.zeros(33, np.uint8)
        odd = raw[1:].view(np.float32).reshape(2, 4)
        odd[...] = self.x
        frozen = self.x.copy()
        frozen.flags.writeable = False
        for x in (fortran, reversed_rows, strided, odd, frozen, self.x):
            np.testing.assert_array_equal(self.model(x, {"k": self.k})["logits"], want)

    def test_a_view_of_a_read_only_array_is_read_only(self):
        self.x.flags.writeable = False
        first = self.model(self.x, {"k": self.k})["first"]
        self.assertFalse(first.flags.writeable)
        self.assertTrue(self.model(self.x.copy(), {"k": self.k})["first"].flags.writeable)

    def test_threads_may_share_a_model_and_clones_run_at_once(self):
        errors = []

        def work(model):
            try:
                for _ in range(50):
                    np.testing.assert_array_equal(model(self.x, {"k": self.k})["logits"], self.y)
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work, args=(self.model,)) for _ in range(4)]
        threads += [threading.Thread(target=work, args=(self.model.clone(),)) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.model.state["calls"], 200)

    def test_methods(self):
        self.assertEqual(self.model.methods, ("forward",))
        out = self.model.run_method("forward", self.x, {"k": self.k})
        np.testing.assert_array_equal(out["logits"], self.y)
        with self.assertRaisesRegex(smelt.InvalidArgument, 'no method "backward"; it has "forward"'):
            self.model.run_method("backward")
        self.assertEqual(self.model.last_call.variant, "distinct")


class WrittenTest(unittest.TestCase):
    """written.pt2: x.add_(1); return x, y.t(), y, 7."""

    def setUp(self):
        self.model = smelt.load(bundle("written"))
        self.x = np.zeros((2, 3), np.float32)
        self.y = np.arange(6, dtype=np.float32).reshape(2, 3)

    def test_arguments_are_written_and_returned_as_they_are(self):
        x, transposed, y, seven = self.model(self.x, self.y)
        self.assertIs(x, self.x)
        self.assertIs(y, self.y)
        self.assertEqual(seven, 7)
        np.testing.assert_array_equal(self.x, np.ones((2, 3)))
        np.testing.assert_array_equal(transposed, self.y.T)
        self.assertTrue(np.shares_memory(transposed, self.y))
        a = self.model.signature.arguments
        self.assertEqual((a[0].written, a[1].written), (True, False))

    def test_one_array_passed_twice_is_one_tensor(self):
        x, transposed, y, _ = self.model(self.x, self.x)
        self.assertIs(x, self.x)
        self.assertIs(y, self.x)
        np.testing.assert_array_equal(transposed, np.ones((3, 2)))

    def test_overlapping_arrays_see_each_others_writes(self):
        whole = np.zeros(9, np.float32)
        x, y = whole[:6].reshape(2, 3), whole[3:].reshape(2, 3)
        _, transposed, _, _ = self.model(x, y)
        np.testing.assert_array_equal(whole, [1, 1, 1, 1, 1, 1, 0, 0, 0])
        np.testing.assert_array_equal(transposed.T, [[1, 1, 1], [0, 0, 0]])

    def test_what_cannot_be_written_is_refused(self):
        frozen = self.x.copy()
        frozen.flags.writeable = False
        backwards = np.zeros((2, 3), np.float32)[::-1]
        odd = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
        for x, message in (
            (frozen, '"x" is a read-only array, and the model writes it'),
            (backwards, '"x" has strides .*negative'),
            (odd, '"x" has strides .*aligned'),
            ([[0.0] * 3] * 2, '"x" is list .* since the model writes it'),
        ):
            with self.subTest(message), self.assertRaisesRegex(smelt.InvalidArgument, message):
                self.model(x, self.y)
        with self.assertRaisesRegex(smelt.InvalidArgument, "read-only"):
            self.model(frozen, frozen)
        np.testing.assert_array_equal(frozen, 0)
        # The other argument may be either.
        self.assertEqual(self.model(self.x, self.y[::-1])[1].shape, (3, 2))

    def test_memory_that_is_written_may_be_read_only_elsewhere(self):
        frozen = self.x.view()
        frozen.flags.writeable = False
        # Another array over the same memory: its owner may write it, so this is allowed, as in numpy.
        _, transposed, _, _ = self.model(self.x, frozen)
        np.testing.assert_array_equal(transposed, np.ones((3, 2)))


class OtherTest(unittest.TestCase):
    def test_options_that_cannot_be_heeded_are_refused(self):
        data = bundle("written").read_bytes()
        self.assertEqual(smelt.load(data).signature, smelt.load(bundle("written")).signature)
        for options in ({"target": "x86-64-v3"}, {"verify_weights": True}):
            with self.assertRaisesRegex(smelt.InvalidArgument, "for the path of a bundle"):
                smelt.load(data, **options)
        with self.assertRaisesRegex(smelt.InvalidArgument, "without a NUL"):
            smelt.load(f"{bundle('written')}\0.smb")

    def test_what_a_foreign_array_raises_is_an_error_of_its_argument(self):
        class Foreign:
            def __dlpack__(self, **options):
                raise RuntimeError("on another device")

        model = smelt.load(bundle("written"))
        with self.assertRaisesRegex(smelt.InvalidArgument, '"y": Foreign.__dlpack__: RuntimeError: on another device'):
            model(np.zeros((2, 3), np.float32), Foreign())

    def test_shape_changes_in_place_need_a_tensor(self):
        model = smelt.load(bundle("mutate_and_transpose_shared"))
        arguments = [np.zeros(a.shape, a.dtype) for a in model.signature.arguments]
        self.assertTrue(any(a.reshaped for a in model.signature.arguments))
        with self.assertRaisesRegex(smelt.InvalidArgument, "the model changes its shape in place"):
            model(*arguments)

    def test_numbers_of_every_kind(self):
        model = smelt.load(
            text_bundle(
                "numbers",
                """graph(%x : Float(4), %n : int, %f : float, %b : bool):
                     %one : int = prim::Constant[value=1]()
                     %y : Float(4) = aten::mul(%x, %f)
                     %z : Float(4) = aten::add(%y, %n, %one)
                     return (%z, %n, %f, %b)""",
            )
        )
        x = np.arange(4, dtype=np.float32)
        z, n, f, b = model(x, 3, 0.5, True)
        np.testing.assert_array_equal(z, x * np.float32(0.5) + 3)
        self.assertEqual((n, f, b), (3, 0.5, True))
        z, n, f, b = model(x, np.int32(-2), np.float32(2), np.bool_(False))
        np.testing.assert_array_equal(z, x * 2 - 2)
        self.assertEqual((n, f), (-2, 2.0))
        self.assertEqual(model(x, 3, 2, True)[2], 2.0)
        for bad, message in (
            ((x, 1.5, 0.5, True), '"n" is float'),
            ((x, 2**70, 0.5, True), '"n" is int .* 64 bits'),
            ((x, 1, "1", True), '"f" is str'),
            ((x, 1, 1j, True), '"f" is complex'),
            ((x, 1, 1.0, 1), '"b" is int'),
            ((x, None, 1.0, True), '"n" is NoneType'),
        ):
            with self.subTest(message), self.assertRaisesRegex(smelt.InvalidArgument, message):
                model(*bad)

    def test_dtypes(self):
        lines = []
        names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
        types = ["Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"]
        for i, t in enumerate(types):
            lines.append(f"%x{i} : {t}(2, 3)")
        body = "\n".join(f"  %y{i} : {t}(3, 2) = aten::t(%x{i})" for i, t in enumerate(types))
        returned = ", ".join(f"%y{i}" for i in range(len(types)))
        model = smelt.load(text_bundle("dtypes", f"graph({', '.join(lines)}):\n{body}\n  return ({returned})"))
        arrays = [np.arange(6).reshape(2, 3).astype(name) for name in names]
        for want, got in zip(arrays, model(*arrays)):
            self.assertEqual(got.dtype, want.dtype)
            np.testing.assert_array_equal(got, want.T)
            self.assertTrue(np.shares_memory(got, want))
        for i, name in enumerate(names):
            wrong = list(arrays)
            wrong[i] = arrays[(i + 1) % len(arrays)]
            with self.assertRaisesRegex(smelt.InvalidArgument, f'"x{i}" is an array of .*, expected {name}'):
                model(*wrong)

    def test_complex_numbers(self):
        model = smelt.load(bundle("complex_rotary"))
        arguments = []
        for a in model.signature.arguments:
            shape = [n if isinstance(n, int) else n.min for n in a.shape]
            arguments.append(np.ones(shape, a.dtype))
        out = model(*arguments)
        self.assertTrue(np.all(np.isfinite(out if isinstance(out, np.ndarray) else out[0])))

    def test_a_model_without_arguments(self):
        model = smelt.load(text_bundle("none", "graph():\n  %n : int = prim::Constant[value=3]()\n  return (%n)"))
        self.assertEqual(model(), (3,))
        with self.assertRaisesRegex(smelt.InvalidArgument, "takes 0 positional arguments"):
            model(1)

    def test_numbers_of_numpy_are_read_and_never_written(self):
        text = """graph(%x : Float()):
                    %two : float = prim::Constant[value=2.]()
                    %y : Float() = aten::mul{}(%x, %two)
                    return (%y)"""
        read, written = (smelt.load(text_bundle(f"scalar{i}", text.format(op))) for i, op in enumerate(("", "_")))
        self.assertEqual(read(np.float32(3)), (6,))
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x" is float32 .* since the model writes it'):
            written(np.float32(3))
        x = np.array(3, np.float32)
        self.assertIs(written(x)[0], x)
        self.assertEqual(x, 6)

    def test_empty_arrays(self):
        text = "graph(%x : Float(0, 3)):\n  %y : Float(0, 3) = aten::relu(%x)\n  return (%y, %x)"
        model = smelt.load(text_bundle("empty", text))
        x = np.empty((0, 3), np.float32)
        y, same = model(x)
        self.assertEqual(y.shape, (0, 3))
        self.assertIs(same, x)

    def test_dlpack_arrays_of_other_libraries(self):
        class Foreign:  # has DLPack and nothing else
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**{k: v for k, v in options.items() if k == "stream"})

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        model = smelt.load(bundle("written"))
        x, y = np.zeros((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
        foreign = Foreign(x)
        out, transposed, _, _ = model(foreign, Foreign(y))
        self.assertIs(out, foreign)
        np.testing.assert_array_equal(x, np.ones((2, 3)))
        self.assertTrue(np.shares_memory(transposed, y))
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x"'):
            model(Foreign(x.astype(np.float64)), y)

    def test_what_looks_like_an_array_and_is_none_is_refused(self):
        class NoCapsule:
            def __dlpack__(self, **options):
                return 5

        model = smelt.load(bundle("written"))
        y = np.zeros((2, 3), np.float32)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x": NoCapsule.__dlpack__ gave int, expected a capsule'):
            model(NoCapsule(), y)
        with self.assertRaisesRegex(smelt.InvalidArgument, '"x" is MaskedArray (?s:.*) without a mask'):
            model(np.ma.masked_array(y, mask=True), y)

    def test_a_model_is_neither_copied_nor_pickled(self):
        model = smelt.load(bundle("written"))
        for copying in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.subTest(copying), self.assertRaisesRegex(TypeError, r"clone\(\) makes another one"):
                copying(model)

    def test_parameters_are_read_only(self):
        model = smelt.load(bundle("digits"))
        name = next(s.name for s in model.signature.states if not s.mutable)
        with self.assertRaises(ValueError):
            model.state[name][...] = 0
        with self.assertRaises(smelt.Refused):
            model.state[name] = np.zeros(model.state[name].shape, model.state[name].dtype)

    def test_random_draws_follow_the_seed(self):
        text = """graph(%x : Float(8)):
                    %none : NoneType = prim::Constant()
                    %y : Float(8) = aten::bernoulli(%x, %none)
                    return (%y)"""
        try:
            model = smelt.load(text_bundle("draws", text), seed=1)
        except smelt.Unsupported:
            self.skipTest("bernoulli is not in this text form")
        x = np.full(8, 0.5, np.float32)
        first = [model(x) for _ in range(3)]
        model.seed(1)
        np.testing.assert_array_equal(first, [model(x) for _ in range(3)])


class LoadTest(unittest.TestCase):
    def test_files_that_are_no_bundles(self):
        with self.assertRaises(smelt.NotFound) as caught:
            smelt.load("/no/such.smb")
        self.assertIsInstance(caught.exception, FileNotFoundError)
        self.assertEqual(caught.exception.exit_code, 3)
        self.assertIn("/no/such.smb", str(caught.exception))
        with self.assertRaises(smelt.DataLoss):
            smelt.load(__file__)
        data = bundle("written").read_bytes()
        with self.assertRaises(smelt.DataLoss):
            smelt.load(data[:-1])
        self.assertEqual(smelt.load(data)(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))[3], 7)

    def test_options(self):
        with self.assertRaises(smelt.WrongMachine) as caught:
            smelt.load(bundle("written"), target="x86-64-v9")
        self.assertEqual(caught.exception.exit_code, 5)
        model = smelt.load(bundle("written"), threads=1, verify_weights=True)
        self.assertIn(model.signature.target, ("x86-64-v3", "x86-64-v4"))
        with self.assertRaises(smelt.InvalidArgument):
            smelt.load(bundle("written"), threads=-1)
        with self.assertRaises(smelt.InvalidArgument):
            smelt.load(bundle("written"), arrays="cupy")

    def test_compile_errors_carry_the_exit_code(self):
        with self.assertRaises(smelt.NotFound):
            smelt.compile("/no/such.pt2", scratch("a.smb"))
        with self.assertRaises(smelt.DataLoss):
            smelt.compile(scratch_file("text.pt2", "no zip"), scratch("a.smb"))
        with self.assertRaises(smelt.Unsupported) as caught:
            smelt.compile(
                scratch_file("mine.ir", "graph(%x : Float(4)):\n  %y : Tensor = mine::spline(%x)\n  return (%y)"),
                scratch("a.smb"),
            )
        self.assertIn("mine::spline", str(caught.exception))
        self.assertEqual(caught.exception.exit_code, 4)
        # How the program is called on a command line is left out.
        with self.assertRaisesRegex(smelt.InvalidArgument, '^smelt compile: target "x86-64-v9" is not known'):
            smelt.compile(scratch_file("text.pt2", "no zip"), scratch("a.smb"), target="x86-64-v9")
        with self.assertRaises(TypeError):
            smelt.compile(3)


def scratch_file(name, text):
    path = scratch(name)
    with open(path, "w") as f:
        f.write(text)
    return path


if __name__ == "__main__":
    unittest.main()
