#include "smelt/core/tensor/view_op.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

// None, an int or a list each; for an operator that takes a tensor, the list is its sizes.
template <typename D>
class Given : public ViewArguments<D> {
 public:
  using Index = typename D::Index;
  struct Argument {
    std::optional<Index> number;
    std::optional<std::vector<Index>> list;
  };
  explicit Given(std::vector<Argument> arguments) : arguments_(std::move(arguments)) {}

  bool IsNone(size_t i) const override { return i > arguments_.size() || (!At(i).number && !At(i).list); }
  bool IsList(size_t i) const override { return i <= arguments_.size() && At(i).list.has_value(); }
  absl::StatusOr<Index> Int(size_t i) const override {
    if (i > arguments_.size() || !At(i).number) return absl::InvalidArgumentError("no number");
    return *At(i).number;
  }
  absl::StatusOr<std::vector<Index>> Ints(size_t i) const override {
    if (!IsList(i)) return absl::InvalidArgumentError("no list");
    return *At(i).list;
  }
  absl::StatusOr<int64_t> Number(size_t i) const override {
    const absl::StatusOr<Index> v = Int(i);
    if (!v.ok()) return v.status();
    return Constant(*v);
  }
  absl::StatusOr<std::vector<int64_t>> Numbers(size_t i) const override {
    const absl::StatusOr<std::vector<Index>> v = Ints(i);
    if (!v.ok()) return v.status();
    std::vector<int64_t> out;
    for (const Index& e : *v) out.push_back(Constant(e));
    return out;
  }
  absl::StatusOr<std::vector<Index>> SizesOfTensor(size_t i) const override { return Ints(i); }
  absl::StatusOr<DType> AsDType(size_t) const override { return absl::InvalidArgumentError("no dtype"); }

 private:
  static int64_t Constant(int64_t v) { return v; }
  static int64_t Constant(const Expr& e) { return *e.Constant(); }
  const Argument& At(size_t i) const { return arguments_[i - 1]; }

  std::vector<Argument> arguments_;
};

using Arguments = Given<ConcreteDecide>;
using Argument = Arguments::Argument;
Argument Int(int64_t v) { return {.number = v}; }
Argument Ints(std::vector<int64_t> v) { return {.list = std::move(v)}; }

absl::StatusOr<ViewResult<ConcreteDecide>> Apply(const char* op, const Geometry& base,
                                                 std::vector<Argument> arguments) {
  ConcreteDecide decide;
  return ApplyView(*FindViewOp(op), Arguments(std::move(arguments)), base, DType::kFloat32, decide);
}

std::vector<std::string> PartsOf(const char* op, const Geometry& base, std::vector<Argument> arguments) {
  const auto r = Apply(op, base, std::move(arguments));
  if (!r.ok()) return {std::string(r.status().message())};
  std::vector<std::string> out;
  for (const auto& part : r->parts) out.push_back(part.geometry.ToString());
  return out;
}

const Geometry kMatrix = {{4, 6}, {6, 1}, 0};

// torch.empty(4, 6)[:, 1:6:2].size(), .stride(), .storage_offset() == (4, 3), (6, 2), 1
TEST(ViewOpTest, SliceTakesItsArgumentsInTheOrderOfTheSchema) {
  EXPECT_EQ(PartsOf("aten::slice.Tensor", kMatrix, {Int(1), Int(1), Int(6), Int(2)}),
            std::vector<std::string>{Geometry({{4, 3}, {6, 2}, 1}).ToString()});
}

// torch.empty(4, 6).split([1, 3], dim=0): "split_with_sizes expects split_sizes to sum exactly to 4 ..."
TEST(ViewOpTest, SizesOfASplitMustBeThoseOfTheDim) {
  EXPECT_EQ(
      PartsOf("aten::split_with_sizes", kMatrix, {Ints({1, 3}), Int(0)}),
      (std::vector<std::string>{Geometry({{1, 6}, {6, 1}, 0}).ToString(), Geometry({{3, 6}, {6, 1}, 6}).ToString()}));
  EXPECT_EQ(PartsOf("aten::split_with_sizes", kMatrix, {Ints({1, 2}), Int(0)}),
            std::vector<std::string>{"split_with_sizes expects split_sizes to sum exactly to 4 (input tensor's size "
                                     "at dimension 0), but got 3"});
}

// [p.shape[1] for p in torch.empty(4, 6).chunk(4, 1)] == [2, 2, 2]
TEST(ViewOpTest, ChunkMayMakeFewerPartsThanAsked) {
  EXPECT_EQ(PartsOf("aten::chunk", kMatrix, {Int(4), Int(1)}).size(), 3);
}

// torch.empty(0, 6).chunk(3) has 3 parts.
TEST(ViewOpTest, ChunkOfAnEmptyDimMakesAsManyPartsAsAsked) {
  EXPECT_EQ(PartsOf("aten::chunk", {{0, 6}, {6, 1}, 0}, {Int(3), Int(0)}).size(), 3);
}

// x.flatten(1, 1) is x; x.t().reshape(24) is a copy.
TEST(ViewOpTest, OperandItselfAndCopiesAreDistinguishedFromViews) {
  EXPECT_TRUE(Apply("aten::flatten.using_ints", kMatrix, {Int(1), Int(1)})->is_operand);
  EXPECT_FALSE(Apply("aten::alias", kMatrix, {})->is_operand);
  const auto copy = Apply("aten::reshape", {{6, 4}, {1, 6}, 0}, {Ints({24})});
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->copy_strides, (std::vector<int64_t>{4, 1}));
  EXPECT_FALSE(Apply("aten::reshape", kMatrix, {Ints({24})})->copy_strides.has_value());
}

// torch.empty(s, 6).split(s // 2 ...): with s in [4, 8] and 4 rows each there are 1 or 2 parts, so the example decides.
TEST(ViewOpTest, NumberOfPartsOfASymbolicSizeIsThatOfTheExample) {
  SymbolRanges ranges;
  SymbolicDecide decide(&ranges, {{"s0", 6}});
  const ExprGeometry base = {{Expr::Symbol("s0"), Expr(6)}, {Expr(6), Expr(1)}, Expr(0)};
  const auto r = ApplyView(*FindViewOp("aten::split.Tensor"), Given<SymbolicDecide>({{.number = Expr(4)}}), base,
                           DType::kFloat32, decide);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->parts.size(), 2);
  EXPECT_FALSE(decide.assumptions().empty());
}

TEST(ViewOpTest, OverloadsOfAnOperatorHaveOneShape) {
  EXPECT_EQ(FindViewOpByName("aten::split")->shape, ViewShape::kSplit);
  EXPECT_EQ(FindViewOp("aten::view.dtype")->shape, FindViewOp("aten::view")->shape);
  EXPECT_EQ(FindViewOp("aten::add.Tensor"), nullptr);
}

}  // namespace
}  // namespace smelt
