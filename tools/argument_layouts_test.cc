// Calls whose arguments lie in memory in another way than the exported ones stay in a compiled plan. The evaluator, which
// follows PyTorch, says what the results are and how they are laid out.
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

// A float32 tensor of different numbers with these sizes and strides.
Tensor Made(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t offset = 0) {
  const Geometry g{sizes, strides, offset};
  auto storage = Storage::Allocate(g.Span().second * 4);
  for (int64_t i = 0; i < g.Span().second; ++i) {
    reinterpret_cast<float*>(storage->data())[i] = static_cast<float>((i * 37 + 11) % 101) / 50 - 1;
  }
  return Tensor(storage, DType::kFloat32, g);
}

// The same tensor again, in its own memory.
Tensor Copy(const Tensor& t) {
  auto storage = Storage::Allocate(t.storage()->bytes());
  std::memcpy(storage->data(), t.storage()->data(), static_cast<size_t>(t.storage()->bytes()));
  return Tensor(storage, t.dtype(), t.geometry());
}

void ExpectEqual(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.sizes(), want.sizes());
  EXPECT_EQ(got.strides(), want.strides());
  const Tensor a = got.Clone(), b = want.Clone();
  for (int64_t i = 0; i < a.NumElements(); ++i) ASSERT_NEAR(a.data_as<float>()[i], b.data_as<float>()[i], 2e-6) << i;
}

class Model {
 public:
  Model(absl::string_view text, const std::string& name) {
    auto graph = ParseModel(text);
    SMELT_CHECK_OK(graph.status());
    graph_ = *std::move(graph);
    CompileOptions options;
    options.targets = {kHostTarget};
    const std::string path = Scratch(name + ".smb");
    SMELT_CHECK_OK(CompileToFile(*graph_, path, options).status());
    auto program = Program::Load(path);
    SMELT_CHECK_OK(program.status());
    InstanceOptions timed;
    timed.time_steps = true;
    auto instance = Instance::Create(*std::move(program), timed);
    SMELT_CHECK_OK(instance.status());
    instance_ = *std::move(instance);
  }

  // Runs the model and the evaluator, and compares results and arguments. Returns the number of the plan that ran, or
  // -1 for one in eager order.
  int Run(const std::vector<Tensor>& args) {
    std::vector<Datum> given;
    std::vector<EvalValue> copies;
    for (const Tensor& t : args) {
      given.push_back(Datum(t));
      copies.push_back(EvalValue(Copy(t)));
    }
    const auto want = EvaluateGraph(*graph_, copies);
    SMELT_CHECK_OK(want.status());
    const auto got = instance_->Run(given);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return -1;
    for (size_t k = 0; k < got->size(); ++k) ExpectEqual((*got)[k].tensor(), want->outputs[k].tensor());
    for (size_t k = 0; k < args.size(); ++k) ExpectEqual(args[k], copies[k].tensor());
    if (instance_->last_call().variant == AliasVariant::kEagerOrder) return -1;
    int plan = -1;
    std::map<int, int64_t> runs;
    for (const StepTime& step : instance_->step_times()) runs[step.plan] += step.runs;
    for (const auto& [number, count] : runs) {
      if (count > runs_[number]) plan = number;
    }
    runs_ = runs;
    return plan;
  }

  int64_t bytes_copied_back() const { return instance_->last_call().bytes_copied_back; }

  // Expects that a plan for these arguments' own strides runs, which copies none of them.
  void ExpectTaken(const std::vector<Tensor>& args) {
    EXPECT_GT(Run(args), 0) << "the first plan is for the exported strides";
    EXPECT_EQ(instance_->last_call().variant, AliasVariant::kDistinct);
  }

 private:
  std::map<int, int64_t> runs_;  // of steps, by plan
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Instance> instance_;
};

constexpr char kWritesBeside[] = R"(
graph(%x : Float(3, 4, strides=[4, 1]), %y : Float(200, 400, strides=[400, 1])):
  %one : int = prim::Constant[value=1]()
  %w : Tensor = aten::add_(%x, %one, %one)
  %s : Tensor = aten::sigmoid(%y)
  %m : Tensor = aten::mul(%s, %y)
  %z : Tensor = aten::add(%m, %one, %one)
  return (%z)
)";

constexpr char kAdds[] = R"(
graph(%x : Float(200, 400, strides=[400, 1]), %y : Float(200, 400, strides=[400, 1])):
  %one : int = prim::Constant[value=1]()
  %z : Tensor = aten::add(%x, %y, %one)
  return (%z)
)";

constexpr char kWritesAndReturns[] = R"(
graph(%x : Float(200, 400, strides=[400, 1]), %y : Float(200, 400, strides=[400, 1])):
  %one : int = prim::Constant[value=1]()
  %w : Tensor = aten::add_(%x, %y, %one)
  %m : Tensor = aten::mul(%w, %y)
  return (%m, %w)
)";

const std::vector<int64_t> kDense = {400, 1}, kTransposed = {1, 200}, kGaps = {416, 1}, kTransposedWithGaps = {1, 209};

TEST(ArgumentLayoutsTest, AProgramThatWritesTakesATransposedArgument) {
  Model model(kWritesBeside, "writes_beside");
  const Tensor x = Made({3, 4}, {4, 1});
  EXPECT_EQ(model.Run({x, Made({200, 400}, kDense)}), 0);
  model.ExpectTaken({x, Made({200, 400}, kTransposed)});
  model.ExpectTaken({x, Made({200, 400}, kGaps, 5)});
  model.ExpectTaken({x, Made({200, 400}, kTransposedWithGaps)});
}

TEST(ArgumentLayoutsTest, ASmallArgumentIsCopiedAndItsResultLaidOutAsPyTorchDoes) {
  Model model(R"(
graph(%x : Float(3, 4, strides=[4, 1]), %y : Float(6, 10, strides=[10, 1])):
  %one : int = prim::Constant[value=1]()
  %w : Tensor = aten::add_(%x, %one, %one)
  %s : Tensor = aten::sigmoid(%y)
  %m : Tensor = aten::mul(%s, %y)
  return (%m, %w)
)",
              "small");
  EXPECT_EQ(model.Run({Made({3, 4}, {4, 1}), Made({6, 10}, {1, 6})}), 0);
  EXPECT_EQ(model.Run({Made({3, 4}, {4, 1}), Made({6, 10}, {30, 3})}), 0);
}

TEST(ArgumentLayoutsTest, EachOfTwoArgumentsMayLieOtherwise) {
  Model model(kAdds, "adds");
  for (const std::vector<int64_t>& x : {kDense, kTransposed, kGaps, kTransposedWithGaps}) {
    for (const std::vector<int64_t>& y : {kDense, kTransposed, kGaps, kTransposedWithGaps}) {
      if (x != kDense || y != kDense) model.ExpectTaken({Made({200, 400}, x), Made({200, 400}, y)});
    }
  }
}

TEST(ArgumentLayoutsTest, AWrittenArgumentIsWrittenInItsOwnLayout) {
  Model model(kWritesAndReturns, "writes_and_returns");
  for (const std::vector<int64_t>& x : {kDense, kTransposed, kGaps}) {
    for (const std::vector<int64_t>& y : {kDense, kTransposed}) {
      if (x != kDense || y != kDense) model.ExpectTaken({Made({200, 400}, x), Made({200, 400}, y)});
    }
  }
}

TEST(ArgumentLayoutsTest, OtherStridesAreCopied) {
  Model model(kAdds, "copies_others");
  // Every third column, all elements repeated, rows that overlap, and every other column that overlaps.
  for (const std::vector<int64_t>& strides : std::vector<std::vector<int64_t>>{{1200, 3}, {0, 0}, {3, 1}, {2, 2}}) {
    EXPECT_EQ(model.Run({Made({200, 400}, strides), Made({200, 400}, kDense)}), 0);
  }
}

TEST(ArgumentLayoutsTest, RepeatedRowsAndColumnsAreReadInTheirPlace) {
  Model model(kAdds, "repeats");
  for (const std::vector<int64_t>& x : std::vector<std::vector<int64_t>>{{0, 1}, {1, 0}}) {
    for (const std::vector<int64_t>& y : {kDense, kTransposed, kGaps, x})
      model.ExpectTaken({Made({200, 400}, x), Made({200, 400}, y)});
  }
}

TEST(ArgumentLayoutsTest, EveryOtherElementIsReadAndWrittenInItsPlace) {
  const std::vector<int64_t> dense = {800, 2}, gaps = {900, 2}, odd = {799, 2};
  Model adds(kAdds, "steps");
  for (const std::vector<int64_t>& x : {dense, gaps, odd}) {
    for (const std::vector<int64_t>& y : {dense, gaps, odd})
      adds.ExpectTaken({Made({200, 400}, x, 3), Made({200, 400}, y)});
  }
  adds.ExpectTaken({Made({200, 400}, {0, 2}), Made({200, 400}, odd)});
  Model writes(kWritesAndReturns, "writes_steps");
  writes.ExpectTaken({Made({200, 400}, dense), Made({200, 400}, gaps)});
  writes.ExpectTaken({Made({200, 400}, odd), Made({200, 400}, odd)});
}

TEST(ArgumentLayoutsTest, EveryOtherElementOfRowsIsReducedInItsPlace) {
  Model model(R"(
graph(%x : Float(200, 400, strides=[400, 1])):
  %dims : int[] = prim::Constant[value=[1]]()
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=False]()
  %v : Tensor, %m : Tensor = aten::var_mean(%x, %dims, %one, %no)
  return (%v, %m)
)",
              "stepped_rows");
  model.ExpectTaken({Made({200, 400}, {800, 2})});
  model.ExpectTaken({Made({200, 400}, {807, 2}, 5)});
}

TEST(ArgumentLayoutsTest, EveryOtherElementIsReadAcrossRowsInTiles) {
  Model model(R"(
graph(%x : Float(200, 400, strides=[400, 1]), %y : Float(400, 200, strides=[200, 1])):
  %one : int = prim::Constant[value=1]()
  %t : Tensor = aten::t(%x)
  %z : Tensor = aten::add(%t, %y, %one)
  return (%z)
)",
              "across");
  model.ExpectTaken({Made({200, 400}, {800, 2}), Made({400, 200}, {400, 2})});
  model.ExpectTaken({Made({200, 400}, {800, 2}), Made({400, 200}, {200, 1})});
}

TEST(ArgumentLayoutsTest, EveryOtherElementIsCopiedBeforeItIsReducedAcrossRows) {
  Model model(R"(
graph(%x : Float(200, 400, strides=[400, 1])):
  %dim : int[] = prim::Constant[value=[1]]()
  %keep : bool = prim::Constant[value=0]()
  %t : Tensor = aten::t(%x)
  %y : Tensor = aten::amax(%t, %dim, %keep)
  return (%y)
)",
              "across_reduced");
  EXPECT_EQ(model.Run({Made({200, 400}, {800, 2})}), 0);
}

TEST(ArgumentLayoutsTest, AWrittenArgumentWithGapsIsWrittenWithoutACopy) {
  Model model(kWritesAndReturns, "in_place");
  for (const std::vector<int64_t>& x : {kGaps, kTransposed, kTransposedWithGaps, {800, 2}}) {
    model.ExpectTaken({Made({200, 400}, x), Made({200, 400}, x)});
    EXPECT_EQ(model.bytes_copied_back(), 0);
  }
}

TEST(ArgumentLayoutsTest, RowsAndColumnsOfImagesMayBeSwapped) {
  Model model(R"(
graph(%x : Float(4, 16, 32, 64, strides=[32768, 2048, 64, 1])):
  %dims : int[] = prim::Constant[value=[0, 2, 3]]()
  %yes : bool = prim::Constant[value=True]()
  %no : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %m : Tensor = aten::mean(%x, %dims, %yes, %no)
  %y : Tensor = aten::sub(%x, %m, %one)
  return (%y)
)",
              "swapped");
  model.ExpectTaken({Made({4, 16, 32, 64}, {32768, 2048, 1, 32})});
  model.ExpectTaken({Made({4, 16, 32, 64}, {32768, 1, 1024, 16})});
}

TEST(ArgumentLayoutsTest, NormalizedImagesMayHaveTheirChannelsInnermost) {
  Model model(R"(
graph(%m : Float(16, strides=[1]), %v : Float(16, strides=[1]), %x : Float(4, 16, 32, 64, strides=[32768, 2048, 64, 1])):
  %yes : bool = prim::Constant[value=True]()
  %no : NoneType = prim::Constant()
  %momentum : float = prim::Constant[value=0.1]()
  %eps : float = prim::Constant[value=1e-05]()
  %y : Tensor = aten::batch_norm(%x, %no, %no, %m, %v, %yes, %momentum, %eps, %yes)
  return (%y)
)",
              "norm");
  const Tensor m = Made({16}, {1}), v = Made({16}, {1});
  EXPECT_EQ(model.Run({m, v, Made({4, 16, 32, 64}, {32768, 2048, 64, 1})}), 0);
  model.ExpectTaken({m, v, Made({4, 16, 32, 64}, {32768, 1, 1024, 16})});
}

TEST(ArgumentLayoutsTest, RowsOfATransposedMatrixAreReduced) {
  Model model(R"(
graph(%x : Float(200, 400, strides=[400, 1])):
  %dim : int = prim::Constant[value=-1]()
  %no : NoneType = prim::Constant()
  %y : Tensor = aten::softmax(%x, %dim, %no)
  return (%y)
)",
              "softmax");
  for (const std::vector<int64_t>& x : {kDense, kTransposed, kGaps, kTransposedWithGaps}) {
    if (x != kDense) model.ExpectTaken({Made({200, 400}, x)});
  }
}

TEST(ArgumentLayoutsTest, AReshapeOfAnArgumentIsNeverReadAcrossGaps) {
  Model model(R"(
graph(%x : Float(200, 400, strides=[400, 1])):
  %sizes : int[] = prim::Constant[value=[80000]]()
  %y : Tensor = aten::reshape(%x, %sizes)
  %z : Tensor = aten::neg(%y)
  return (%z)
)",
              "reshape");
  for (const std::vector<int64_t>& x : {kDense, kTransposed, kGaps, kTransposedWithGaps}) {
    EXPECT_EQ(model.Run({Made({200, 400}, x)}), 0);
  }
}

TEST(ArgumentLayoutsTest, AReshapeThatIsAViewInTheCallIsWrittenThrough) {
  Model model(R"(
graph(%y : Float(200, 400, strides=[1, 200])):
  %sizes : int[] = prim::Constant[value=[80000]]()
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::reshape(%y, %sizes)
  %w : Tensor = aten::add_(%r, %one, %one)
  %z : Tensor = aten::neg(%w)
  return (%z)
)",
              "written_view");
  model.Run({Made({200, 400}, kTransposed)});
  model.Run({Made({200, 400}, kDense)});
}

TEST(ArgumentLayoutsTest, ASmallerArgumentMayBeTransposedWithALargeOne) {
  Model model(R"(
graph(%x : Float(200, 400, strides=[400, 1]), %y : Float(50, 200, strides=[200, 1])):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %end : int = prim::Constant[value=50]()
  %columns : int = prim::Constant[value=200]()
  %part : Tensor = aten::slice(%x, %zero, %zero, %end, %one)
  %half : Tensor = aten::slice(%part, %one, %zero, %columns, %one)
  %z : Tensor = aten::add(%half, %y, %one)
  return (%z)
)",
              "smaller");
  EXPECT_EQ(model.Run({Made({200, 400}, kDense), Made({50, 200}, {200, 1})}), 0);
  model.ExpectTaken({Made({200, 400}, kTransposed), Made({50, 200}, {1, 50})});
  model.ExpectTaken({Made({200, 400}, kTransposed), Made({50, 200}, {200, 1})});
  model.ExpectTaken({Made({200, 400}, kGaps), Made({50, 200}, {201, 1})});
  EXPECT_EQ(model.Run({Made({200, 400}, kDense), Made({50, 200}, {1, 50})}), 0);
}

// More layouts, and at other sizes, than an instance remembers, each of which comes again.
TEST(ArgumentLayoutsTest, CallsOfManyLayoutsAndSizesMayAlternate) {
  Model model(R"(
graph(%x : Float(s0, s1, strides=[s1, 1]), %y : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [2, inf] hint 256
  symbol s1 in [2, inf] hint 512
  %one : int = prim::Constant[value=1]()
  %t : Tensor = aten::add(%x, %y, %one)
  %z : Tensor = aten::tanh(%t)
  return (%z)
)",
              "alternating");
  for (int turn = 0; turn < 3; ++turn) {
    for (int64_t n = 4; n < 9; ++n) {
      const std::vector<std::vector<int64_t>> layouts = {{7, 1}, {1, n}, {9, 1}, {14, 2}, {21, 3}, {1, n + 2}};
      for (const std::vector<int64_t>& x : layouts) {
        const int plan = model.Run({Made({n, 7}, x), Made({n, 7}, layouts[0])});
        if (x == layouts[0] || x == layouts[4]) {
          EXPECT_EQ(plan, 0);
        }
        model.Run({Made({n, 7}, x), Made({n, 7}, x)});
        model.Run({Made({n, 7}, layouts[turn]), Made({n, 7}, x)});
      }
    }
  }
}

TEST(ArgumentLayoutsTest, SizesMayBeTheCallsToo) {
  Model model(R"(
graph(%x : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [2, inf] hint 256
  symbol s1 in [2, inf] hint 512
  %y : Tensor = aten::tanh(%x)
  return (%y)
)",
              "dynamic");
  EXPECT_EQ(model.Run({Made({5, 7}, {7, 1})}), 0);
  model.ExpectTaken({Made({5, 7}, {1, 5})});
  model.ExpectTaken({Made({9, 2}, {8, 1})});
  model.ExpectTaken({Made({2, 3}, {1, 4})});
}

}  // namespace
}  // namespace smelt
