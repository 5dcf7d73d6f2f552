"""Operators of the user's own, in Python: expected values are arithmetic."""

import functools
import threading
import unittest

import numpy as np

import smelt
from support import TESTDATA, scratch, text_bundle

CUSTOM = TESTDATA / "custom"


@functools.lru_cache(maxsize=None)
def bundle(name):
    return smelt.compile(
        CUSTOM / f"{name}.pt2", scratch(f"{name}.smb"), op_schemas=[CUSTOM / "operators.txt"],
        options=["--cache-mode=off"],
    )  # fmt: skip


F = "Float(3, strides=[1])"


@functools.lru_cache(maxsize=None)
def one_call(schema, arguments="%x, %y", result=F):
    """The bundle of a model that calls one operator; it returns the result, or x where there is none."""
    outputs, returned = (f"%r : {result} = ", "%r") if result else ("", "%x")
    return text_bundle(
        f"model{abs(hash((schema, arguments, result)))}",
        f"""graph(%x : {F}, %y : {F}):
  %two : int = prim::Constant[value=2]()
  {outputs}{schema.split("(")[0]}({arguments})
  return ({returned})
""",
        op_schemas=[schema],
    )


class Case(unittest.TestCase):
    def register(self, name, function, **options):
        smelt.register_op(name, function, **options)
        self.addCleanup(smelt.unregister_op, name)


class Loaded:
    """A loaded model of one result, without the tuple that a text's results are in."""

    def __init__(self, path):
        self.model = smelt.load(path)
        self.signature = self.model.signature

    def __call__(self, *args):
        (result,) = self.model(*args)
        return result

    def clone(self):
        other = Loaded.__new__(Loaded)
        other.model = self.model.clone()
        return other


x3, y3 = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)


class RegisterTest(Case):
    def test_a_result_is_what_the_function_returns(self):
        self.register("mylib::add", lambda x, y: x + 2 * y)
        model = Loaded(one_call("mylib::add(Tensor x, Tensor y) -> Tensor"))
        np.testing.assert_array_equal(model(x3, y3), [21, 42, 63])

    def test_a_written_argument_is_the_callers(self):
        def add_(x, y):
            x += y

        self.register("mylib::add_", add_)
        model = Loaded(one_call("mylib::add_(Tensor(a!) x, Tensor y) -> ()", result=None))
        x = x3.copy()
        self.assertIs(model(x, y3), x)
        np.testing.assert_array_equal(x, [11, 22, 33])
        self.assertTrue(model.signature.arguments[0].written)
        self.assertFalse(model.signature.arguments[1].written)

    def test_strides_and_read_only_arrays_need_no_copy(self):
        seen = []

        def add_(x, y):
            seen.append((x.strides, y.strides, x.flags.writeable, y.flags.writeable))
            x += y

        self.register("mylib::add_", add_)
        model = Loaded(one_call("mylib::add_(Tensor(a!) x, Tensor y) -> ()", result=None))
        x, y = np.zeros((3, 2), np.float32), y3.copy()
        y.flags.writeable = False
        model(x[:, 1], y)
        np.testing.assert_array_equal(x, [[0, 10], [0, 20], [0, 30]])
        self.assertEqual(seen, [((8,), (4,), True, False)])

    def test_only_written_arrays_can_be_written(self):
        def add(x, y):
            x += y
            return x

        self.register("mylib::add", add)
        model = Loaded(one_call("mylib::add(Tensor x, Tensor y) -> Tensor"))
        x = x3.copy()
        with self.assertRaisesRegex(smelt.Refused, "mylib::add: ValueError: output array is read-only"):
            model(x, y3)
        np.testing.assert_array_equal(x, x3)

    def test_an_exception_ends_the_call_and_puts_the_arguments_back(self):
        def add_(x, y):
            x += y
            raise KeyError("not today")

        self.register("mylib::add_", add_)
        model = Loaded(one_call("mylib::add_(Tensor(a!) x, Tensor y) -> ()", result=None))
        x = x3.copy()
        with self.assertRaisesRegex(smelt.Refused, "mylib::add_: KeyError: 'not today'") as caught:
            model(x, y3)
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        np.testing.assert_array_equal(x, x3)

    def test_a_wrong_result_is_named_with_what_was_expected(self):
        schema = "mylib::add(Tensor x, Tensor y) -> Tensor"
        cases = [
            (lambda x, y: x[:2] + y[:2], r"mylib::add: result 0 is float32\[2\], expected float32\[3\]"),
            (lambda x, y: (x + y).astype(np.float64), r"result 0 is float64\[3\], expected float32\[3\]"),
            (lambda x, y: (x + y)[None], r"result 0 is float32\[1, 3\], expected float32\[3\]"),
            (lambda x, y: 7, "result 0 is an int, expected a tensor"),
            (lambda x, y: None, "result 0 is None, expected a tensor"),
            (lambda x, y: [x], "result 0 is a list, expected a tensor"),
            (lambda x, y: "text", "returned str, a tensor or a number expected"),
            (lambda x, y: np.array(["a"]), "returned an array of <U1"),
        ]
        for function, message in cases:
            smelt.register_op("mylib::add", function)
            with self.assertRaisesRegex(smelt.Refused, message):
                Loaded(one_call(schema))(x3, y3)
        smelt.unregister_op("mylib::add")

    def test_a_result_in_an_arguments_memory_needs_an_annotation(self):
        self.register("mylib::part", lambda x, y: x)
        x = x3.copy()
        model = Loaded(one_call("mylib::part(Tensor x, Tensor y) -> Tensor"))
        with self.assertRaisesRegex(smelt.Refused, 'is in the memory of argument "x", which the operator\'s schema'):
            model(x, y3)

        def write(x, y):
            x[0] = 5
            return x

        self.register("mylib::part_", write)
        model = Loaded(one_call("mylib::part_(Tensor(a!) x, Tensor y) -> Tensor"))
        with self.assertRaisesRegex(smelt.Refused, 'is in the memory of argument "x", which the operator\'s schema'):
            model(x, y3)
        np.testing.assert_array_equal(x, x3)
        self.register("mylib::part__", write)
        model = Loaded(one_call("mylib::part__(Tensor(a!) x, Tensor y) -> Tensor(a!)"))
        self.assertIs(model(x, y3), x)
        self.assertEqual(x[0], 5)

    def test_a_view_that_the_schema_allows_is_one_though_the_array_is_read_only(self):
        for dtype, text in ((np.float32, "Float"), (np.bool_, "Bool")):
            name = f"mylib::tail_of_{text.lower()}"
            self.register(name, lambda x: x[1:])
            path = text_bundle(
                f"tail_of_{text}",
                f"""graph(%x : {text}(3, strides=[1])):
  %t : {text}(2, strides=[1]) = {name}(%x)
  %u : {text}(2, strides=[1]) = aten::zero_(%t)
  return (%t)
""",
                op_schemas=[f"{name}(Tensor(a) x) -> Tensor(a)"],
            )
            x = np.ones(3, dtype)
            tail = Loaded(path)(x)
            np.testing.assert_array_equal(x, [1, 0, 0])
            self.assertTrue(np.shares_memory(tail, x))

    def test_an_operator_cannot_use_the_model_that_is_calling_it(self):
        uses = [lambda: model(x3, y3), lambda: model.model.reset(), lambda: model.model.last_call]
        for use in uses:
            smelt.register_op("mylib::add", lambda x, y, use=use: use() or x + y)
            model = Loaded(one_call("mylib::add(Tensor x, Tensor y) -> Tensor"))
            with self.assertRaisesRegex(smelt.Refused, r"an operator uses the model that is calling it: .* clone\(\)"):
                model(x3, y3)
        smelt.unregister_op("mylib::add")

    def test_an_exception_without_a_text_ends_the_call_too(self):
        class Mute(Exception):
            def __str__(self):
                raise ValueError("no text")

        def add_(x, y):
            x += y
            raise Mute

        self.register("mylib::add_", add_)
        model = Loaded(one_call("mylib::add_(Tensor(a!) x, Tensor y) -> ()", result=None))
        x = x3.copy()
        with self.assertRaisesRegex(smelt.Refused, "mylib::add_: Mute"):
            model(x, y3)
        np.testing.assert_array_equal(x, x3)

    def test_an_interrupt_in_an_operator_goes_on(self):
        def add(x, y):
            raise KeyboardInterrupt

        self.register("mylib::add", add)
        model = Loaded(one_call("mylib::add(Tensor x, Tensor y) -> Tensor"))
        with self.assertRaises(KeyboardInterrupt):
            model(x3, y3)

    def test_an_int_of_more_than_64_bits_is_refused(self):
        self.register("mylib::count", lambda x: 2**64 + 7)
        path = text_bundle(
            "count",
            f"""graph(%x : {F}):
  %n : int = mylib::count(%x)
  return (%n)
""",
            op_schemas=["mylib::count(Tensor x) -> int"],
        )
        with self.assertRaisesRegex(smelt.Refused, "returned an int of 65 bits"):
            Loaded(path)(x3)

    def test_numbers_lists_strings_and_none_are_pythons(self):
        got = []

        def f(x, flags, n, maybe, text):
            got.append((flags, n, maybe, text))
            return x * n

        self.register("mylib::f", f)
        path = text_bundle(
            "kinds_of_arguments",
            f"""graph(%x : {F}):
  %flags : int[] = prim::Constant[value=[1, 2]]()
  %n : int = prim::Constant[value=3]()
  %none : NoneType = prim::Constant()
  %text : str = prim::Constant[value="größe"]()
  %r : {F} = mylib::f(%x, %flags, %n, %none, %text)
  return (%r)
""",
            op_schemas=["mylib::f(Tensor x, int[] flags, int n, Tensor? maybe=None, str text='a') -> Tensor"],
        )
        np.testing.assert_array_equal(Loaded(path)(x3), [3, 6, 9])
        self.assertEqual(got, [([1, 2], 3, None, "größe")])

    def test_empty_tensors_are_arrays(self):
        self.register("mylib::double", lambda x: x * 2)
        path = text_bundle(
            "empty",
            """graph(%x : Float(0, 3, strides=[3, 1])):
  %r : Float(0, 3, strides=[3, 1]) = mylib::double(%x)
  return (%r)
""",
            op_schemas=["mylib::double(Tensor x) -> Tensor"],
        )
        self.assertEqual(Loaded(path)(np.zeros((0, 3), np.float32)).shape, (0, 3))

    def test_missing_operators_are_named_when_a_bundle_is_loaded(self):
        with self.assertRaisesRegex(smelt.Unsupported, r"mylib::nobody\(Tensor x, Tensor y\) -> Tensor"):
            Loaded(one_call("mylib::nobody(Tensor x, Tensor y) -> Tensor"))

    def test_a_model_keeps_the_implementation_that_it_was_loaded_with(self):
        path = one_call("mylib::add(Tensor x, Tensor y) -> Tensor")
        smelt.register_op("mylib::add", lambda x, y: x + y)
        before = Loaded(path)
        smelt.register_op("mylib::add", lambda x, y: x - y)
        after = Loaded(path)
        smelt.unregister_op("mylib::add")
        np.testing.assert_array_equal(before(x3, y3), x3 + y3)
        np.testing.assert_array_equal(after(x3, y3), x3 - y3)

    def test_two_instances_call_at_once(self):
        inside = threading.Barrier(2, timeout=30)

        def add(x, y):
            inside.wait()  # passes only if both are here
            return x + y

        self.register("mylib::add", add)
        model = Loaded(one_call("mylib::add(Tensor x, Tensor y) -> Tensor"))
        results = {}

        def run(name, m):
            results[name] = m(x3, y3)

        threads = [threading.Thread(target=run, args=(i, m)) for i, m in enumerate((model, model.clone()))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for i in range(2):
            np.testing.assert_array_equal(results[i], x3 + y3)

    def test_an_operator_may_run_another_model(self):
        self.register("mylib::inner", lambda x, y: x * y)
        inner = Loaded(one_call("mylib::inner(Tensor x, Tensor y) -> Tensor"))
        self.register("mylib::outer", lambda x, y: inner(x, y) + 1)
        outer = Loaded(one_call("mylib::outer(Tensor x, Tensor y) -> Tensor"))
        np.testing.assert_array_equal(outer(x3, y3), x3 * y3 + 1)

    def test_what_an_operator_keeps_stays_valid(self):
        kept = []
        self.register("mylib::keep", lambda x, y: kept.append(x) or x + y)
        path = text_bundle(
            "kept",
            f"""graph(%x : {F}, %y : {F}):
  %one : int = prim::Constant[value=1]()
  %sum : {F} = aten::add.Tensor(%x, %y, %one)
  %r : {F} = mylib::keep(%sum, %y)
  return (%r)
""",
            op_schemas=["mylib::keep(Tensor x, Tensor y) -> Tensor"],
        )
        model = Loaded(path)
        model(x3, y3)
        del model
        np.testing.assert_array_equal(kept[0], x3 + y3)

    def test_registering_is_checked(self):
        with self.assertRaises(TypeError):
            smelt.register_op("mylib::f", 7)
        with self.assertRaises(smelt.InvalidArgument):
            smelt.register_op("f", lambda: None)
        with self.assertRaises(smelt.InvalidArgument):
            smelt.register_op("mylib::f", lambda: None, arrays="lists")
        with self.assertRaises(smelt.NotFound):
            smelt.unregister_op("mylib::nobody")
        with self.assertRaises(smelt.NotFound):
            smelt.load_op_library("no_such.so")


def cap_(x, high):
    np.minimum(x, np.float32(high), out=x)


def add_all_(xs, y):
    for x in xs:
        x[...] = x + y


class ArchiveTest(Case):
    """A model of testdata/custom, whose answers as PyTorch recorded them are checked by //testdata/custom."""

    def setUp(self):
        self.register("testops::cap_", cap_)
        self.register("testops::add_all_", add_all_)

    def test_arguments_and_states_are_written(self):
        model = smelt.load(bundle("written"))
        total = np.zeros(3, np.float32)
        x = np.array([[1, -1, 3], [2, 4, -2]], np.float32)
        for _ in range(2):
            before = x.copy()
            results = model(x)
            # add_all_([total, x[0]], x[1]); cap_(x[:, 1:], 0.5)
            total = total + before[1]
            expected = before.copy()
            expected[0] += before[1]
            expected[:, 1:] = np.minimum(expected[:, 1:], 0.5)
            np.testing.assert_array_equal(x, expected)
            np.testing.assert_array_equal(model.state["total"], total)
            np.testing.assert_array_equal(results[0], total * 2)
            np.testing.assert_array_equal(results[1], expected + 1)


if __name__ == "__main__":
    unittest.main()
