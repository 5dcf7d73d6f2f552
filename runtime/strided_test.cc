#include "smelt/runtime/strided.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/thread_pool.h"

namespace smelt {
namespace {

using List = std::vector<int64_t>;

// Copies between these strides, and expects at each index the source's bytes, and no other byte changed.
void ExpectCopied(const List& sizes, const List& to_strides, const List& from_strides, int item, ThreadPool* pool) {
  SCOPED_TRACE(absl::StrCat(absl::StrJoin(sizes, "x"), " from ", absl::StrJoin(from_strides, ","), " to ",
                            absl::StrJoin(to_strides, ","), " of ", item));
  const Geometry to{sizes, to_strides, 0}, from{sizes, from_strides, 0};
  std::vector<char> source(from.Span().second * item), copied(to.Span().second * item, 0);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(1 + (i * 7 + i / 251) % 127);
  std::vector<char> want = copied;
  List index(sizes.size(), 0);
  for (int64_t n = to.NumElements(); n-- > 0;) {
    int64_t t = 0, f = 0;
    for (size_t d = 0; d < sizes.size(); ++d) t += index[d] * to_strides[d], f += index[d] * from_strides[d];
    std::memcpy(want.data() + t * item, source.data() + f * item, item);
    for (size_t d = sizes.size(); d-- > 0 && ++index[d] == sizes[d];) index[d] = 0;
  }
  CopyStrided(copied.data(), to_strides, source.data(), from_strides, sizes, item, pool, 2);
  EXPECT_TRUE(copied == want);
}

TEST(StridedTest, TransposedElementsComeToTheirPlace) {
  for (int item : {1, 2, 4, 8, 16}) {
    for (const List& sizes : {List{70, 65}, List{16, 64}, List{3, 130}, List{33, 1}, List{129, 17}}) {
      ExpectCopied(sizes, {sizes[1], 1}, {1, sizes[0]}, item, nullptr);
      ExpectCopied(sizes, {sizes[1] + 3, 1}, {1, sizes[0] + 5}, item, nullptr);
    }
  }
}

TEST(StridedTest, BatchesOfTransposedMatricesComeToTheirPlace) {
  ExpectCopied({2, 66, 5, 9}, {66 * 45, 45, 9, 1}, {66 * 45, 1, 66 * 9, 66}, 4, nullptr);
  ExpectCopied({2, 66, 5, 9}, {66 * 45, 1, 66 * 9, 66}, {66 * 45, 45, 9, 1}, 4, nullptr);
  ExpectCopied({3, 20, 70}, {1400, 70, 1}, {1, 3, 60}, 2, nullptr);
  ExpectCopied({3, 20, 70}, {1400, 70, 1}, {0, 1, 20}, 8, nullptr);
}

TEST(StridedTest, ThreadsShareALargeTransposedMatrix) {
  ThreadPool pool(2);
  ExpectCopied({300, 700}, {700, 1}, {1, 300}, 4, &pool);
  ExpectCopied({2, 300, 200}, {60000, 200, 1}, {60000, 1, 300}, 8, &pool);
}

}  // namespace
}  // namespace smelt
