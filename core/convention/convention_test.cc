#include "smelt/core/convention/convention.h"

#include <concepts>
#include <type_traits>

#include "gtest/gtest.h"

namespace smelt {
namespace {

// An index of one layer is not an index of another: neither converts, compares nor assigns.
template <typename A, typename B>
concept Comparable = requires(A a, B b) { a == b; };

TEST(LayerIndexTest, IndicesOfDifferentLayersDoNotMix) {
  static_assert(!std::is_convertible_v<CallerIndex, DistinctIndex>);
  static_assert(!std::is_convertible_v<DistinctIndex, MemoryIndex>);
  static_assert(!std::is_constructible_v<MemoryIndex, DistinctIndex>);
  static_assert(!std::is_assignable_v<CallerIndex&, DistinctIndex>);
  static_assert(!Comparable<CallerIndex, DistinctIndex>);
  static_assert(Comparable<CallerIndex, CallerIndex>);
}

TEST(LayerIndexTest, NumbersAreNoIndices) {
  static_assert(!std::is_convertible_v<int, CallerIndex>);
  static_assert(!std::is_convertible_v<CallerIndex, int>);
}

TEST(ConventionTest, PrintsEachLayerOnItsLines) {
  Convention c;
  c.duplicates.inner_of_outer = {DistinctIndex(0), DistinctIndex(0)};
  c.overlaps.memory_of = {MemoryIndex(0)};
  c.overlaps.num_memories = c.overlaps.num_argument_memories = 1;
  OutputInfo o;
  o.kind = OutputInfo::Kind::kIsArgument;
  o.argument = CallerIndex(1);
  c.outputs.outputs.push_back(o);
  EXPECT_EQ(c.ToString(),
            "duplicates: 0 0\noverlaps: 0 of 1 memories, 1 with states\nmutations:\noutputs:\n  argument 1\n");
}

}  // namespace
}  // namespace smelt
