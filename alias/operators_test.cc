// Effects of single operators on memory that the schema does not state. bench/alias/operators.py runs all operators.

#include "gtest/gtest.h"
#include "smelt/alias/scenario.h"

namespace smelt {
namespace {

TEST(OperatorsTest, SparseTensorsLiveInTheIndicesAndValuesTheyAreMadeOf) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %z : Tensor, %size : int[]):
  %n : NoneType = prim::Constant()
  %rows : Tensor = aten::clone(%x, %n)
  %columns : Tensor = aten::clone(%y, %n)
  %values : Tensor = aten::clone(%z, %n)
  %csr : Tensor = aten::sparse_csr_tensor(%rows, %columns, %values, %size, %n, %n, %n, %n)
  %coo : Tensor = aten::sparse_coo_tensor(%rows, %values, %size, %n, %n, %n, %n, %n)
  %inside : Tensor = aten::_values(%coo)
  %w : Tensor = aten::relu_(%inside)
  return (%csr)
)",
         R"(may_alias %csr %rows: true
            may_alias %csr %columns: true
            may_alias %csr %values: true
            may_alias %coo %values: true
            may_alias %coo %columns: false
            has_writers %values: true
            has_writers %columns: false)");
}

TEST(OperatorsTest, ASparseGradientLivesInTheOneThatCameIn) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %i : Tensor):
  %n : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %sparse : bool = prim::Constant[value=1]()
  %grad : Tensor = aten::clone(%x, %n)
  %self : Tensor = aten::clone(%y, %n)
  %index : Tensor = aten::clone(%i, %n)
  %r : Tensor = aten::gather_backward(%grad, %self, %one, %index, %sparse)
  %no : bool = prim::Constant[value=0]()
  %dense : Tensor = aten::gather_backward(%grad, %self, %one, %index, %no)
  return (%r)
)",
         R"(may_alias %r %grad: true
            may_alias %r %self: false
            may_alias %dense %grad: false)");
}

TEST(OperatorsTest, AttentionDrawsRandomNumbersOnlyWithDropout) {
  Expect(R"(graph(%x : Tensor, %p : float):
  %n : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %zero : float = prim::Constant[value=0.]()
  %none : Tensor = aten::scaled_dot_product_attention(%x, %x, %x, %n, %zero, %f, %n, %f)
  %some : Tensor, %weights : Tensor = aten::_scaled_dot_product_attention_math(%x, %x, %x, %n, %p, %f, %n, %n, %f)
  %u : Tensor = aten::rand_like(%x, %n, %n, %n, %n, %n)
  return (%none, %some, %u)
)",
         R"(can_move_before %u %some: false
            can_move_after %none %u: true)");
}

TEST(OperatorsTest, ARecurrentNetworkDrawsRandomNumbersOnlyWhileItTrainsWithDropout) {
  Expect(R"(graph(%x : Tensor, %h : Tensor, %params : Tensor[], %p : float):
  %n : NoneType = prim::Constant()
  %two : int = prim::Constant[value=2]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %y : Tensor, %a : Tensor = aten::gru(%x, %h, %params, %t, %two, %p, %t, %f, %f)
  %z : Tensor, %b : Tensor = aten::gru(%x, %h, %params, %t, %two, %p, %f, %f, %f)
  %u : Tensor = aten::rand_like(%x, %n, %n, %n, %n, %n)
  return (%y, %z, %u)
)",
         R"(can_move_before %u %y: false
            can_move_before %u %z: true)");
}

// PyTorch 2.13 draws random numbers even for p = 0.
TEST(OperatorsTest, NativeDropoutDrawsRandomNumbersWheneverItTrains) {
  Expect(R"(graph(%x : Tensor):
  %n : NoneType = prim::Constant()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %zero : float = prim::Constant[value=0.]()
  %half : float = prim::Constant[value=0.5]()
  %y : Tensor, %m : Tensor = aten::native_dropout(%x, %zero, %t)
  %z : Tensor, %k : Tensor = aten::native_dropout(%x, %half, %f)
  %d : Tensor = aten::dropout(%x, %zero, %t)
  %u : Tensor = aten::rand_like(%x, %n, %n, %n, %n, %n)
  return (%y, %z, %d, %u)
)",
         R"(can_move_before %u %y: false
            can_move_before %u %z: true
            can_move_before %u %d: true
            must_alias %d %x: true)");
}

TEST(OperatorsTest, RreluDrawsRandomNumbersOnlyWhileItTrains) {
  Expect(R"(graph(%x : Tensor):
  %n : NoneType = prim::Constant()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %low : float = prim::Constant[value=0.1]()
  %up : float = prim::Constant[value=0.3]()
  %y : Tensor = aten::rrelu(%x, %low, %up, %t, %n)
  %z : Tensor = aten::rrelu(%x, %low, %up, %f, %n)
  %u : Tensor = aten::rand_like(%x, %n, %n, %n, %n, %n)
  return (%y, %z, %u)
)",
         R"(can_move_before %u %y: false
            can_move_before %u %z: true)");
}

TEST(OperatorsTest, ResizeWithAnOutCopiesIntoIt) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %size : int[]):
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::clone(%x, %n)
  %out : Tensor = aten::clone(%y, %n)
  %r : Tensor = aten::resize(%a, %size, %n, %out)
  return (%r)
)",
         R"(has_writers %out: true
            has_writers %a: false
            may_alias %r %out: true)");
}

TEST(OperatorsTest, OfOneTensorAProductIsAViewOfTwoItIsNew) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::clone(%x, %n)
  %b : Tensor = aten::clone(%y, %n)
  %one : Tensor[] = prim::ListConstruct(%a)
  %two : Tensor[] = prim::ListConstruct(%a, %b)
  %v : Tensor = aten::cartesian_prod(%one)
  %p : Tensor = aten::cartesian_prod(%two)
  return (%v, %p)
)",
         R"(may_alias %v %a: true
            may_alias %p %a: false)");
}

TEST(OperatorsTest, AProductOfOneMatrixIsACopyOfIt) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::clone(%x, %n)
  %b : Tensor = aten::clone(%y, %n)
  %one : Tensor[] = prim::ListConstruct(%a)
  %p : Tensor = aten::chain_matmul(%one)
  %o : Tensor = aten::chain_matmul(%one, %b)
  return (%p, %o)
)",
         R"(may_alias %p %a: false
            may_alias %o %a: false
            may_alias %o %b: true)");
}

TEST(OperatorsTest, SetTakesTheSourcesMemoryNotItsDtype) {
  // torch.ops.aten.set(torch.zeros(3), torch.ones(2, 2, dtype=torch.int8)) is a float tensor over four times the bytes.
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::clone(%x, %n)
  %b : Tensor = aten::clone(%y, %n)
  %r : Tensor = aten::set.source_Tensor(%a, %b)
  return (%r)
)",
         R"(may_alias %r %b: true
            must_alias %r %b: false)");
}

TEST(OperatorsTest, ACallWithoutOverloadIsTheFirstInPyTorchsRegistryThatTakesIt) {
  // torch._C.parse_ir: set.source_Tensor, not set.out; max.other, not max.unary_out.
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::clone(%x, %n)
  %b : Tensor = aten::clone(%y, %n)
  %r : Tensor = aten::set(%a, %b)
  %m : Tensor = aten::max(%a, %b)
  return (%r, %m)
)",
         R"(may_alias %r %b: true
            writes_to_alias_of %r %b: true
            has_writers %a: false
            may_alias %m %b: false
            writes_to_alias_of %m %b: false)");
}

TEST(OperatorsTest, SumToAnotherSizeIsNewMemoryToTheSameTheTensorItself) {
  Expect(R"(graph(%x : Float(1, 1, 4, 4, strides=[16, 16, 4, 1]), %n : int):
  %zero : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %four : int = prim::Constant[value=4]()
  %row : int[] = prim::ListConstruct(%one, %four)
  %all : int[] = prim::ListConstruct(%one, %one, %four, %four)
  %some : int[] = prim::ListConstruct(%one, %one, %n, %four)
  %a : Float(1, 1, 4, 4, strides=[16, 16, 4, 1]) = aten::clone(%x, %zero)
  %r : Tensor = aten::sum_to_size(%a, %row)
  %s : Tensor = aten::sum_to_size(%a, %all)
  %t : Tensor = aten::sum_to_size(%a, %some)
  return (%r, %s, %t)
)",
         R"(may_alias %r %a: false
            must_alias %s %a: true
            may_alias %t %a: true
            must_alias %t %a: false)");
}

// torch.empty_strided([1, 2], [4, 2]).ravel() has other memory, though a view of it with one dimension exists.
TEST(OperatorsTest, RavelCopiesWhatIsNotContiguous) {
  Expect(R"(graph(%gaps : Float(1, 2, strides=[4, 2]), %whole : Float(1, 2, strides=[2, 1])):
  %one : int = prim::Constant[value=-1]()
  %size : int[] = prim::ListConstruct(%one)
  %copy : Float(2, strides=[1]) = aten::ravel(%gaps)
  %view : Float(2, strides=[1]) = aten::ravel(%whole)
  %reshaped : Float(2, strides=[2]) = aten::reshape(%gaps, %size)
  return (%copy)
)",
         R"(may_alias %copy %gaps: false
            may_alias %view %whole: true
            may_alias %reshaped %gaps: true)");
}

TEST(OperatorsTest, NoWriteMovesAcrossAnOperatorThatMayCopyWhateverTheTypesSay) {
  Expect(R"(graph(%x : Float(4, strides=[1]), %like : Float(4, strides=[1])):
  %no : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %float : int = prim::Constant[value=6]()
  %n : NoneType = prim::Constant()
  %size : int[] = prim::ListConstruct(%one, %one)
  %ravel : Float(4, strides=[1]) = aten::ravel(%x)
  %flat : Float(4, strides=[1]) = aten::flatten(%x, %zero, %zero)
  %reshaped : Float(4, strides=[1]) = aten::reshape_as(%x, %like)
  %whole : Float(4, strides=[1]) = aten::contiguous(%x, %zero)
  %same : Float(4, strides=[1]) = aten::to(%x, %float, %no, %no, %n)
  %cast : Float(4, strides=[1]) = aten::type_as(%x, %like)
  %view : Float(4, strides=[1]) = aten::detach(%x)
  %w : Float(4, strides=[1]) = aten::relu_(%x)
  return (%ravel)
)",
         R"(can_move_before %w %view: true
            can_move_after %view %w: true
            can_move_before %w %cast: false
            can_move_after %ravel %w: false
            can_move_after %flat %w: false
            can_move_after %reshaped %w: false
            can_move_after %whole %w: false
            can_move_after %same %w: false
            can_move_after %cast %w: false)");
}

TEST(OperatorsTest, ATensorMadeWithStridesMayOverlapItself) {
  // torch.empty_strided([2, 2], [0, 1]): both rows are the same bytes.
  Expect(R"(graph(%x : Tensor):
  %n : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %size : int[] = prim::ListConstruct(%two, %two)
  %stride : int[] = prim::ListConstruct(%zero, %one)
  %e : Tensor = aten::empty_strided(%size, %stride, %n, %n, %n, %n)
  %a : Tensor = aten::select(%e, %zero, %zero)
  %b : Tensor = aten::select(%e, %zero, %one)
  %f : Tensor = aten::new_empty_strided(%x, %size, %stride, %n, %n, %n, %n)
  %c : Tensor = aten::select(%f, %zero, %zero)
  %d : Tensor = aten::select(%f, %zero, %one)
  %t : Float(2, 2, strides=[2, 1]) = aten::empty_strided(%size, %stride, %n, %n, %n, %n)
  %u : Tensor = aten::select(%t, %zero, %zero)
  %v : Tensor = aten::select(%t, %zero, %one)
  %w : Tensor = aten::relu_(%a)
  return (%n)
)",
         R"(may_alias %a %b: true
            has_writers %b: true
            may_alias %c %d: true
            may_alias %u %v: false)");
}

}  // namespace
}  // namespace smelt
