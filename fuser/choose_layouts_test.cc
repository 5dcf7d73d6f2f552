#include "smelt/fuser/choose_layouts.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

constexpr char kConstants[] = R"(
  %none : NoneType = prim::Constant()
  %one : int[] = prim::Constant[value=[1, 1]]()
  %zero : int[] = prim::Constant[value=[0, 0]]()
  %no : bool = prim::Constant[value=False]()
  %groups : int = prim::Constant[value=1]()
)";

class ChooseLayoutsTest : public testing::Test {
 protected:
  int Choose(const std::string& nodes, const std::string& results) {
    const std::string text =
        "graph(%x : Float(2, 3, 8, 8, strides=[192, 64, 8, 1]), %w : Float(4, 3, 1, 1, strides=[3, 1, 1, 1]), "
        "%v : Float(4, 4, 1, 1, strides=[4, 1, 1, 1])):" +
        std::string(kConstants) + nodes + "  return (" + results + ")\n";
    auto parsed = ParseGraph(text);
    if (!parsed.ok()) {
      ADD_FAILURE() << parsed.status();
      return -1;
    }
    graph_ = *std::move(parsed);
    const int n = ChooseLayouts(*graph_);
    EXPECT_EQ(VerifyGraph(*graph_), absl::OkStatus());
    return n;
  }
  bool IsChannelsLast(const std::string& name) const {
    return *graph_->value(graph_->FindValue(name)).type.tensor().strides == std::vector<Expr>{256, 1, 32, 4};
  }
  std::unique_ptr<Graph> graph_;
};

constexpr char kFirst[] =
    "  %a : Float(2, 4, 8, 8, strides=[256, 64, 8, 1]) = aten::convolution(%x, %w, %none, %one, %zero, %one, %no, "
    "%zero, %groups)\n";
constexpr char kRelu[] = "  %r : Float(2, 4, 8, 8, strides=[256, 64, 8, 1]) = aten::relu(%a)\n";
constexpr char kSecond[] =
    "  %b : Float(2, 4, 8, 8, strides=[256, 64, 8, 1]) = aten::convolution(%r, %v, %none, %one, %zero, %one, %no, "
    "%zero, %groups)\n";

TEST_F(ChooseLayoutsTest, WhatLiesBetweenConvolutionsHasItsChannelsInnermost) {
  EXPECT_EQ(Choose(std::string(kFirst) + kRelu + kSecond, "%b"), 2);
  EXPECT_TRUE(IsChannelsLast("a"));
  EXPECT_TRUE(IsChannelsLast("r"));
  EXPECT_FALSE(IsChannelsLast("b"));  // the caller sees it
}

TEST_F(ChooseLayoutsTest, NothingChangesForTheLastConvolutionAlone) {
  EXPECT_EQ(Choose(std::string(kFirst) + kRelu, "%r"), 0);
}

TEST_F(ChooseLayoutsTest, WhatAViewSeesStays) {
  EXPECT_EQ(Choose(std::string(kFirst) + kRelu + kSecond +
                       "  %s : Float(2, 4, 64, strides=[256, 64, 1]) = smelt::view[sizes=[2, 4, 64], strides=[256, "
                       "64, 1], offset=0, dtype=6](%a)\n",
                   "%b, %s"),
            0);
}

TEST_F(ChooseLayoutsTest, WhatARegionIsWrittenIntoStays) {
  EXPECT_EQ(Choose(std::string(kFirst) + kRelu + kSecond +
                       "  %s : Float(2, 4, 8, 8, strides=[256, 64, 8, 1]) = smelt::write_region[sizes=[2, 4, 8, 8], "
                       "strides=[256, 64, 8, 1], offset=0, dtype=6](%a, %b)\n",
                   "%s"),
            0);
}

TEST_F(ChooseLayoutsTest, WhatIsPooledAwayNeedsNoConvolutionAfterIt) {
  EXPECT_EQ(Choose(std::string(kFirst) + "  %d : int[] = prim::Constant[value=[2, 3]]()\n"
                                         "  %m : Float(2, 4, strides=[4, 1]) = aten::mean(%a, %d, %no, %none)\n",
                   "%m"),
            1);
  EXPECT_TRUE(IsChannelsLast("a"));
}

}  // namespace
}  // namespace smelt
