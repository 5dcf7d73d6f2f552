// Writes at indices through views of an argument happen in its memory, and nothing else in it moves.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

constexpr int kPages = 4, kSlots = 4, kColumns = 2;

float Value(int64_t i) { return static_cast<float>(100 + i); }

// %x is 4 pages of 4 slots of 2 columns, counted from 0; %k is 3 rows counted from 100, and %s are their destinations.
struct Written {
  std::vector<float> x;
  std::vector<float> result;  // the first, if there is one
  CallStats stats;
};
Written Call(const std::string& nodes, const std::string& name, const std::vector<int64_t>& indices) {
  Written out;
  auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float(4, 4, 2, strides=[8, 2, 1]), %s : Long(3, strides=[1]), %k : Float(3, 2, strides=[2, 1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %at : Tensor[] = prim::ListConstruct(%s)
  %rows : int[] = prim::Constant[value=[16, 2]]()
)",
                                          nodes),
                             name);
  EXPECT_TRUE(instance.ok()) << instance.status();
  if (!instance.ok()) return out;
  Tensor x = Tensor::Empty(DType::kFloat32, {kPages, kSlots, kColumns}), s = Tensor::Empty(DType::kInt64, {3}),
         k = Tensor::Empty(DType::kFloat32, {3, kColumns});
  for (int i = 0; i < kPages * kSlots * kColumns; ++i) x.data_as<float>()[i] = static_cast<float>(i);
  for (int i = 0; i < 3; ++i) s.data_as<int64_t>()[i] = indices[i];
  for (int i = 0; i < 3 * kColumns; ++i) k.data_as<float>()[i] = Value(i);
  auto results = (*instance)->Run({x, s, k});
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return out;
  out.stats = (*instance)->last_call();
  out.x.assign(x.data_as<float>(), x.data_as<float>() + kPages * kSlots * kColumns);
  if (!results->empty() && (*results)[0].IsTensor()) {
    const Tensor r = (*results)[0].tensor().Clone();
    out.result.assign(r.data_as<float>(), r.data_as<float>() + r.NumElements());
  }
  return out;
}

// Elements counted from 0, except row indices[i] of the rows whose first element `place` gives.
std::vector<float> With(const std::vector<int64_t>& indices, const std::function<int64_t(int64_t)>& place) {
  std::vector<float> x(kPages * kSlots * kColumns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (size_t i = 0; i < indices.size(); ++i) {
    for (int c = 0; c < kColumns; ++c) x[place(indices[i]) + c] = Value(static_cast<int64_t>(i) * kColumns + c);
  }
  return x;
}

const std::vector<int64_t> kRows = {9, 0, 14};
const std::vector<int64_t> kSlotsOfAPage = {3, 0, 2};

TEST(IndexedWritesTest, IntoTheRowsOfAllPagesAreMadeWhereTheyLie) {
  const Written w = Call(R"(
  %v : Tensor = aten::view(%x, %rows)
  %w : Tensor = aten::index_put_(%v, %at, %k, %no)
  return ()
)",
                         "rows", kRows);
  EXPECT_EQ(w.x, With(kRows, [](int64_t i) { return i * kColumns; }));
  EXPECT_EQ(w.stats.arena_bytes, 0);
  EXPECT_EQ(w.stats.bytes_copied_back, 0);
  EXPECT_EQ(w.stats.kernel_launches, 1);
}

TEST(IndexedWritesTest, IntoOnePageAreMadeWhereItLies) {
  const Written w = Call(R"(
  %v : Tensor = aten::select.int(%x, %zero, %two)
  %w : Tensor = aten::index_copy_(%v, %zero, %s, %k)
  return ()
)",
                         "page", kSlotsOfAPage);
  EXPECT_EQ(w.x, With(kSlotsOfAPage, [](int64_t i) { return 2 * kSlots * kColumns + i * kColumns; }));
  EXPECT_EQ(w.stats.arena_bytes, 0);
  EXPECT_EQ(w.stats.kernel_launches, 1);
}

TEST(IndexedWritesTest, IntoTwoPagesOneAfterTheOtherAreMadeWhereTheyLie) {
  const Written w = Call(R"(
  %v : Tensor = aten::select.int(%x, %zero, %zero)
  %w : Tensor = aten::index_put_(%v, %at, %k, %no)
  %v2 : Tensor = aten::select.int(%x, %zero, %one)
  %w2 : Tensor = aten::index_put_(%v2, %at, %k, %no)
  return ()
)",
                         "pages", kSlotsOfAPage);
  std::vector<float> expected = With(kSlotsOfAPage, [](int64_t i) { return i * kColumns; });
  const std::vector<float> second = With(kSlotsOfAPage, [](int64_t i) { return kSlots * kColumns + i * kColumns; });
  std::copy(second.begin() + kSlots * kColumns, second.begin() + 2 * kSlots * kColumns,
            expected.begin() + kSlots * kColumns);
  EXPECT_EQ(w.x, expected);
  EXPECT_EQ(w.stats.arena_bytes, 0);
  EXPECT_EQ(w.stats.kernel_launches, 2);
}

// The form of a write to a diagonal of a part in archives without views: it is written into a copy of the part, which
// is then written back.
TEST(IndexedWritesTest, ARegionOfACopyOfAPartCountsFromThePart) {
  auto instance = InstanceOf(R"(
graph(%x : Float(5, 5, strides=[5, 1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %four : int = prim::Constant[value=4]()
  %five : int = prim::Constant[value=5]()
  %no : bool = prim::Constant[value=0]()
  %rows : Tensor = aten::slice.Tensor(%x, %zero, %one, %five, %one)
  %square : Tensor = aten::slice.Tensor(%rows, %one, %zero, %four, %one)
  %d : Tensor = aten::diagonal(%square, %zero, %zero, %one)
  %v : Tensor = aten::add.Scalar(%d, %one, %one)
  %square2 : Tensor = aten::diagonal_scatter(%square, %v, %zero, %zero, %one)
  %rows2 : Tensor = aten::slice_scatter(%rows, %square2, %one, %zero, %four, %one)
  %x2 : Tensor = aten::slice_scatter(%x, %rows2, %zero, %one, %five, %one)
  %z : Tensor = aten::copy_(%x, %x2, %no)
  return ()
)",
                             "part");
  ASSERT_TRUE(instance.ok()) << instance.status();
  Tensor x = Tensor::Empty(DType::kFloat32, {5, 5});
  for (int i = 0; i < 25; ++i) x.data_as<float>()[i] = static_cast<float>(i);
  ASSERT_TRUE((*instance)->Run({x}).ok());
  for (int i = 0; i < 25; ++i)
    EXPECT_EQ(x.data_as<float>()[i], static_cast<float>(i / 5 == i % 5 + 1 ? i + 1 : i)) << i;
}

// Between the graph's copy and the write back, a node reads the old contents.
TEST(IndexedWritesTest, LeaveWhatIsReadOfThePageBefore) {
  const Written w = Call(R"(
  %before : Tensor = aten::neg(%x)
  %v : Tensor = aten::view(%x, %rows)
  %w : Tensor = aten::index_put_(%v, %at, %k, %no)
  %after : Tensor = aten::add.Tensor(%before, %x, %one)
  return (%after)
)",
                         "before", kRows);
  EXPECT_EQ(w.x, With(kRows, [](int64_t i) { return i * kColumns; }));
  for (size_t i = 0; i < w.x.size(); ++i) EXPECT_EQ(w.result[i], w.x[i] - static_cast<float>(i)) << i;
}

TEST(IndexedWritesTest, OfRowsThatLieInThePageItself) {
  const Written w = Call(R"(
  %v : Tensor = aten::view(%x, %rows)
  %first : Tensor = aten::index_select(%v, %zero, %s)
  %w : Tensor = aten::index_put_(%v, %at, %k, %no)
  %sum : Tensor = aten::add.Tensor(%first, %k, %one)
  %w2 : Tensor = aten::index_add_(%v, %zero, %s, %sum, %one)
  return ()
)",
                         "itself", kRows);
  std::vector<float> expected = With(kRows, [](int64_t i) { return i * kColumns; });
  for (size_t i = 0; i < kRows.size(); ++i) {
    for (int c = 0; c < kColumns; ++c) {
      const int64_t at = kRows[i] * kColumns + c;
      expected[at] += static_cast<float>(at) + Value(static_cast<int64_t>(i) * kColumns + c);
    }
  }
  EXPECT_EQ(w.x, expected);
}

// %m is 8 elements; %x are elements 3 and 4 of it, %y are 2 and 4. Returns the error if the call is refused for its
// order, with %m unchanged; else the contents of %m.
absl::StatusOr<std::vector<float>> WriteBesideSource(const std::string& write, const std::string& name,
                                                     const std::vector<int64_t>& indices) {
  auto instance = InstanceOf(absl::StrCat(R"(
graph(%m : Float(8, strides=[1]), %i : Long(1, 2, strides=[2, 1])):
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %sizes : int[] = prim::Constant[value=[1, 2]]()
  %near : int[] = prim::Constant[value=[2, 1]]()
  %apart : int[] = prim::Constant[value=[2, 2]]()
  %x : Tensor = aten::as_strided(%m, %sizes, %near, %three)
  %y : Tensor = aten::as_strided(%m, %sizes, %apart, %two)
  %row : Tensor = aten::squeeze(%i)
)",
                                          write),
                             name);
  if (!instance.ok()) return instance.status();
  Tensor m = Tensor::Empty(DType::kFloat32, {8}), i = Tensor::Empty(DType::kInt64, {1, 2});
  const std::vector<float> before = {3, 1, -1, 2, -2, 5, 6, 7};
  std::copy(before.begin(), before.end(), m.data_as<float>());
  std::copy(indices.begin(), indices.end(), i.data_as<int64_t>());
  const absl::Status ran = (*instance)->Run({m, i}).status();
  const std::vector<float> after(m.data_as<float>(), m.data_as<float>() + 8);
  if (ran.ok()) return after;
  EXPECT_EQ(after, before) << write;
  return ran;
}

TEST(IndexedWritesTest, ASourceAtPlacesThatAreWrittenIsRefusedThoughItEndsAsItWas) {
  // PyTorch sets the elements to 1 before it reads the source, which gives -1 and 1. A read before all writes would
  // give -1 and -2.
  const char* scatter = R"(
  %how : str = prim::Constant[value="prod"]()
  %r : Tensor = aten::scatter_reduce_.two(%x, %one, %i, %y, %how, %no)
  return (%m)
)";
  EXPECT_THAT(WriteBesideSource(scatter, "scatter", {0, 1}).status().message(), testing::HasSubstr("order"));
  // The same index twice: PyTorch reads -1 there the second time.
  for (const char* write : {"index_copy_(%x, %one, %row, %y)", "scatter_.src(%x, %one, %i, %y)"}) {
    const std::string text = absl::StrCat("  %r : Tensor = aten::", write, "\n  return (%m)\n");
    EXPECT_THAT(WriteBesideSource(text, "twice", {1, 1}).status().message(), testing::HasSubstr("order")) << write;
  }
}

TEST(IndexedWritesTest, ASourceBesideThePlacesThatAreWrittenIsNot) {
  const char* scatter = R"(
  %how : str = prim::Constant[value="amax"]()
  %r : Tensor = aten::scatter_reduce_.two(%x, %one, %i, %y, %how, %no)
  return (%m)
)";
  EXPECT_EQ(*WriteBesideSource(scatter, "scatter", {0, 0}), std::vector<float>({3, 1, -1, -1, -2, 5, 6, 7}));
  EXPECT_EQ(
      *WriteBesideSource("  %r : Tensor = aten::index_copy_(%x, %one, %row, %y)\n  return (%m)\n", "copy", {0, 0}),
      std::vector<float>({3, 1, -1, -2, -2, 5, 6, 7}));
}

}  // namespace
}  // namespace smelt
