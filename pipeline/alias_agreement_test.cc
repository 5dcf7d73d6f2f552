#include "smelt/pipeline/alias_agreement.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using testing::HasSubstr;

class AliasAgreementTest : public testing::Test {
 protected:
  AliasAgreementTest() {
    graph_ = *ParseGraph(R"(graph(%x : Float(4, 4, strides=[4, 1]), %y : Float(4, 4, strides=[4, 1])):
  %k : int = prim::Constant[value=0]()
  %v : Float(4, strides=[1]) = aten::select.int(%x, %k, %k)
  %z : Float(4, 4, strides=[4, 1]) = aten::neg(%y)
  return (%v, %z)
)");
  }
  ValueId Find(const char* name) const { return graph_->FindValue(name); }
  std::unique_ptr<Graph> graph_;
};

TEST_F(AliasAgreementTest, AViewInItsBasesMemoryIsAgreedUpon) {
  AliasAgreement agreement(*graph_);
  agreement.Add(Find("x"), 0);
  agreement.Add(Find("v"), 0);
  agreement.Add(Find("y"), 1);
  agreement.Add(Find("z"), 2);
  EXPECT_EQ(agreement.status(), absl::OkStatus());
}

TEST_F(AliasAgreementTest, AViewWithAMemoryOfItsOwnIsNot) {
  AliasAgreement agreement(*graph_);
  agreement.Add(Find("x"), 0);
  agreement.Add(Find("v"), 1);
  EXPECT_THAT(agreement.status().message(), HasSubstr("the alias database has %x and %v in one memory"));
}

TEST_F(AliasAgreementTest, AFreshResultInAnotherTensorsMemoryIsNot) {
  AliasAgreement agreement(*graph_);
  agreement.Add(Find("y"), 1);
  agreement.Add(Find("z"), 1);
  EXPECT_THAT(agreement.status().message(), HasSubstr("functionalization has %y and %z in one memory"));
}

}  // namespace
}  // namespace smelt
