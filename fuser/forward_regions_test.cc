#include "smelt/fuser/forward_regions.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/fuser/fuse_testing.h"

namespace smelt {
namespace {

using Groups = std::vector<std::string>;

// %a is exp(x), 8 rows of 32; its left half is replaced by its sine, then its right half by its cosine. Views %l and %r
// show them at the end.
std::string Halves(const std::string& nodes, const std::string& results) {
  return absl::StrCat(R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %one : int = prim::Constant[value=1]()
  %a : Float(8, 32, strides=[32, 1]) = aten::exp(%x)
  %l0 : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%a)
  %s : Float(8, 16, strides=[16, 1]) = aten::sin(%l0)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%a, %s)
  %r0 : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=16, dtype=6](%b)
  %c : Float(8, 16, strides=[16, 1]) = aten::cos(%r0)
  %d : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 1], offset=16, dtype=6](%b, %c)
  %l : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%d)
  %r : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=16, dtype=6](%d)
)",
                      nodes, "  return (", results, ")\n");
}
int Count(const Graph& g, const char* op) {
  int n = 0;
  for (NodeId id : g.AllNodes()) n += g.node(id).op.full() == op;
  return n;
}

constexpr char kProduct[] = "  %z : Float(8, 16, strides=[16, 1]) = aten::mul.Tensor(%l, %r)\n";

TEST(ForwardRegions, AMemoryThatIsReadThroughItsRegionsAloneIsNone) {
  std::unique_ptr<Graph> g = ParseOrFail(Halves(kProduct, "%z"));
  EXPECT_GT(ForwardRegions(*g), 0);
  EXPECT_EQ(Count(*g, "smelt::write_region"), 0);
  Fused f = FuseText(Halves(kProduct, "%z"));
  EXPECT_EQ(f.groups().size(), 1u) << f.Edges();
}

TEST(ForwardRegions, AMemoryThatIsReturnedStays) {
  std::unique_ptr<Graph> g = ParseOrFail(Halves(kProduct, "%z, %d"));
  ForwardRegions(*g);
  EXPECT_EQ(Count(*g, "smelt::write_region"), 2);
  FuseText(Halves(kProduct, "%z, %d"));
}

TEST(ForwardRegions, AMemoryThatAViewShowsMoreOfStays) {
  const std::string text = Halves(R"(
  %m : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=8, dtype=6](%d)
  %z : Float(8, 16, strides=[16, 1]) = aten::mul.Tensor(%l, %m)
)",
                                  "%z");
  std::unique_ptr<Graph> g = ParseOrFail(text);
  ForwardRegions(*g);
  EXPECT_EQ(Count(*g, "smelt::write_region"), 2);
  FuseText(text);
}

// The call rewrites the argument; the value written into it is used from where it was computed.
TEST(ForwardRegions, WhatIsWrittenIntoAnArgumentIsUsedInTheLoopThatMakesIt) {
  const std::string text = R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %l : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%x)
  %s : Float(8, 16, strides=[16, 1]) = aten::sin(%l)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%x, %s)
  %m : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%b)
  %z : Float(8, 16, strides=[16, 1]) = aten::exp(%m)
  return (%z, %b)
)";
  Fused f = FuseText(text);
  EXPECT_EQ(f.groups(), Groups{"sin_write_region_exp"}) << f.Edges();
}

// The region is in an argument's memory, which the call rewrites afterwards. It must not be read later than before.
TEST(ForwardRegions, AnArgumentIsNotReadBehindItsOwnRewrite) {
  const std::string text = R"(graph(%x : Float(8, 16, strides=[16, 1]), %y : Float(8, 32, strides=[32, 1])):
  %a : Float(8, 32, strides=[32, 1]) = aten::exp(%y)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%a, %x)
  %row : Float(16, strides=[1]) = smelt::view[sizes=[16], strides=[1], offset=0, dtype=6](%y)
  %c : Float(8, 16, strides=[16, 1]) = smelt::write_region[sizes=[16], strides=[1], offset=0, dtype=6](%x, %row)
  %m : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%b)
  %z : Float(8, 16, strides=[16, 1]) = aten::sin(%m)
  return (%z, %c)
)";
  std::unique_ptr<Graph> g = ParseOrFail(text);
  EXPECT_EQ(ForwardRegions(*g), 0);
  FuseText(text);
}

}  // namespace
}  // namespace smelt
