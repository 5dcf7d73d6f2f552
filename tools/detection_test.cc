// torchvision's detection operators, compiled and run, and evaluated. The expected numbers are those of torchvision
// 0.28 with PyTorch 2.13 on a CPU, of operands that Numbers() makes in Python likewise.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

// The elements are ((i * mul + 11) % 101) / scale - shift.
Tensor Numbers(std::vector<int64_t> sizes, int64_t mul = 37, double scale = 50, double shift = 1) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  for (int64_t i = 0; i < t.NumElements(); ++i)
    t.data_as<float>()[i] = static_cast<float>(static_cast<double>((i * mul + 11) % 101) / scale - shift);
  return t;
}

Tensor Floats(std::vector<int64_t> sizes, const std::vector<float>& values) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  std::copy(values.begin(), values.end(), t.data_as<float>());
  return t;
}

// Four boxes in two images of 8 by 9 elements: inside, over an edge, flat, over the opposite edge.
Tensor Boxes() {
  return Floats({4, 5}, {0, .5f, .75f, 6.25f, 7, 1, -2, -1.5f, 3.25f, 4.5f, 1, 5, 5, 4, 4.5f, 0, 2.25f, 2.75f, 20, 17});
}

std::vector<double> ElementsOf(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.NumElements(); ++i) out.push_back(ElementAsDouble(t, i));
  return out;
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << what << ", element " << i;
    } else {
      EXPECT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << what << ", element " << i;
    }
  }
}

// Checks the results of the graph, as the evaluator and as a compiled program compute them.
void ExpectResults(const std::string& text, const std::vector<Tensor>& args,
                   const std::vector<std::vector<double>>& want) {
  auto graph = ParseModel(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto evaluated = EvaluateGraph(**graph, std::vector<EvalValue>(args.begin(), args.end()));
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  auto instance = InstanceOf(text, "detection");
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto run = (*instance)->Run(std::vector<Datum>(args.begin(), args.end()));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    ExpectNear(ElementsOf(evaluated->outputs[k].tensor()), want[k], absl::StrCat("evaluated result ", k));
    ExpectNear(ElementsOf((*run)[k].tensor()), want[k], absl::StrCat("result ", k));
  }
}

std::string NmsOf(double threshold) {
  return absl::StrCat(R"(
graph(%b : Float(12, 4, strides=[4, 1]), %s : Float(12, strides=[1])):
  symbol u0 in [0, 12]
  %t : float = prim::Constant[value=)",
                      threshold, R"(]()
  %k : Long(u0, strides=[1]) = torchvision::nms(%b, %s, %t)
  return (%k)
)");
}

TEST(DetectionTest, NmsKeepsTheBoxesThatOverlapNoneOfHigherScore) {
  std::vector<float> boxes, scores;
  for (int i = 0; i < 12; ++i) {
    const float x = static_cast<float>(i * 37 % 23) / 2, y = static_cast<float>(i * 53 % 19) / 2;
    const float w = 3 + static_cast<float>(i * 29 % 13) / 2, h = 2 + static_cast<float>(i * 31 % 11) / 2;
    for (float v : {x, y, x + w, y + h}) boxes.push_back(v);
    scores.push_back(static_cast<float>(i * 7 % 5) / 5);
  }
  const std::vector<Tensor> args = {Floats({12, 4}, boxes), Floats({12}, scores)};
  ExpectResults(NmsOf(.1), args, {{2, 4, 1, 11, 0}});
  ExpectResults(NmsOf(.3), args, {{2, 4, 1, 11, 3, 0, 5}});
  ExpectResults(NmsOf(.7), args, {{2, 7, 4, 9, 1, 6, 11, 3, 0, 5, 10}});
}

std::string RoiAlign(int sampling, bool aligned) {
  return absl::StrCat(R"(
graph(%x : Float(2, 2, 8, 9, strides=[144, 72, 9, 1]), %r : Float(4, 5, strides=[5, 1])):
  %scale : float = prim::Constant[value=0.875]()
  %h : int = prim::Constant[value=2]()
  %w : int = prim::Constant[value=3]()
  %n : int = prim::Constant[value=)",
                      sampling, "]()\n  %a : bool = prim::Constant[value=", aligned ? 1 : 0, R"(]()
  %y : Tensor = torchvision::roi_align(%x, %r, %scale, %h, %w, %n, %a)
  return (%y)
)");
}

TEST(DetectionTest, RoiAlignTakesTheMeansOfPointsInEachBin) {
  const std::vector<Tensor> args = {Numbers({2, 2, 8, 9}), Boxes()};
  ExpectResults(RoiAlign(-1, false), args,
                {{-0.195979, -0.0401423, 0.0403564,  0.0709583,    0.0237298,  -0.180039,  -0.0631807, 0.00702325,
                  0.170504,  -0.245242,  -0.169237,  -0.0491249,   0.162917,   -0.0519662, 0.297028,   -0.0208333,
                  -0.051237, -0.0198405, -0.1725,    0.0596875,    0.363639,   -0.0195833, -0.048737,  0.138499,
                  0.131979,  -0.0421875, -0.111146,  -0.0940623,   -0.436563,  -0.410834,  -0.0969792, -0.102812,
                  0.0491664, -0.144167,  0.1025,     0.296562,     -0.0518876, 0.013417,   0,          0,
                  0,         0,          -0.0643821, -0.000317939, 0,          0,          0,          0}});
  ExpectResults(RoiAlign(2, true), args,
                {{-0.126922,  -0.0769128, 0.0431258,  0.173689,   -0.214822, -0.197953,  -0.153319,   0.117366,
                  0.0928823,  -0.031644,  -0.12084,   -0.0646922, 0,         0.155468,   -0.00921875, 0,
                  -0.0155408, -0.0276855, 0,          -0.133633,  0.279546,  0,          -0.0242603,  0.129175,
                  -0.172819,  -0.250566,  -0.328314,  -0.184395,  -0.133262, -0.0821289, 0.458958,    0.243125,
                  0.0272917,  0.327708,   0.111875,   -0.103958,  -0.166657, 0.0228631,  0,           0,
                  0,          0,          -0.0635416, -0.0813007, 0,         0,          0,           0}});
  ExpectResults(RoiAlign(-1, true), args,
                {{-0.153297,   -0.0604329, 0.049199,   0.108484,   -0.209309,  -0.134849, -0.108783,   0.0644266,
                  0.125386,    -0.0735755, -0.136094,  -0.0751349, 0,          0.186748,  0.000208328, 0,
                  -0.00875976, -0.0326172, 0,          -0.165677,  0.360898,   0,         -0.00625977, 0.115859,
                  0,           0,          0,          0,          0,          0,         0,           0,
                  0,           0,          0,          0,          -0.0450066, 0.0169959, 0,           0,
                  0,           0,          -0.0930866, -0.0211876, 0,          0,         0,           0}});
}

TEST(DetectionTest, RoiPoolTakesTheLargestElementOfEachBin) {
  ExpectResults(R"(
graph(%x : Float(2, 2, 8, 9, strides=[144, 72, 9, 1]), %r : Float(4, 5, strides=[5, 1])):
  %scale : float = prim::Constant[value=0.875]()
  %h : int = prim::Constant[value=2]()
  %w : int = prim::Constant[value=3]()
  %y : Tensor, %p : Tensor = torchvision::roi_pool(%x, %r, %scale, %h, %w)
  return (%y, %p)
)",
                {Numbers({2, 2, 8, 9}), Boxes()},
                {{0.56, 0.62, 0.76, 0.94, 1,    0.54, 0.58, 0.78, 0.84, 0.96, 0.56, 0.62, 0,    0.74, 0.94, 0,
                  0.66, 0.72, 0,    0.82, 0.96, 0,    0.68, 0.88, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04, 0.8,  0.8,
                  0.8,  0.8,  0.8,  0.8,  1,    0.88, 0,    0,    0,    0,    0.9,  0.9,  0,    0,    0,    0},
                 {10, 21, 13, 46, 57, 40, 9,  12, 23, 45, 39, 50, -1, 0,  3,  -1, 19, 30, -1, 10, 2,  -1, 18, 21,
                  40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 57, 35, -1, -1, -1, -1, 34, 34, -1, -1, -1, -1}});
}

TEST(DetectionTest, PsRoiAlignTakesEachBinFromItsOwnChannel) {
  std::vector<double> channels;
  for (int i = 0; i < 48; ++i) channels.push_back(i % 12);
  for (int sampling : {-1, 2}) {
    ExpectResults(
        absl::StrCat(R"(
graph(%x : Float(2, 12, 5, 6, strides=[360, 30, 6, 1]), %r : Float(4, 5, strides=[5, 1])):
  %scale : float = prim::Constant[value=0.625]()
  %h : int = prim::Constant[value=2]()
  %w : int = prim::Constant[value=3]()
  %n : int = prim::Constant[value=)",
                     sampling, R"(]()
  %y : Tensor, %c : Tensor = torchvision::ps_roi_align(%x, %r, %scale, %h, %w, %n)
  return (%y, %c)
)"),
        {Numbers({2, 12, 5, 6}), Boxes()},
        {sampling < 0
             ? std::vector<double>{-0.0973958, -0.127695,  -0.249522,  0.0378314,  -0.296976, 0.260736, -0.217396,
                                   0.382199,   -0.115142,  0.343144,   -0.0131976, 0.140736,  0.5,      0.875,
                                   -0.0396094, -0.217656,  -0.402377,  0.0622705,  0.44,      0.755,    -0.159609,
                                   -0.277656,  -0.522377,  -0.0577295, NAN,        NAN,       NAN,      NAN,
                                   NAN,        NAN,        NAN,        NAN,        NAN,       NAN,      NAN,
                                   NAN,        -0.0754549, 0.0105625,  0,          0,         0,        0,
                                   0.022038,   -0.0374375, 0,          0,          0,         0}
             : std::vector<double>{-0.0973958, -0.127695,  -0.249522,  0.0378314,  -0.296976, 0.260736,  -0.217396,
                                   0.382199,   -0.115142,  0.343144,   -0.0131976, 0.140736,  0.5,       0.875,
                                   -0.0396094, -0.217656,  -0.402377,  0.0622705,  0.44,      0.755,     -0.159609,
                                   -0.277656,  -0.522377,  -0.0577295, -0.155833,  -0.33,     -0.504167, -0.278333,
                                   -0.4525,    -0.626667,  -0.275833,  -0.45,      -0.624167, -0.398333, -0.5725,
                                   -0.746667,  -0.0566076, 0.0632031,  0,          0,         0,         0,
                                   -0.0148498, 0.00320312, 0,          0,          0,         0},
         channels});
  }
}

TEST(DetectionTest, ABoxInAnImageThatIsNotThereIsRefused) {
  auto instance = InstanceOf(RoiAlign(-1, false), "detection_refused");
  ASSERT_TRUE(instance.ok()) << instance.status();
  Tensor boxes = Boxes();
  boxes.data_as<float>()[5] = 2;
  const auto run = (*instance)->Run({Numbers({2, 2, 8, 9}), boxes});
  ASSERT_FALSE(run.ok());
  EXPECT_TRUE(absl::StrContains(run.status().message(), "box 1 lies in image 2 of 2")) << run.status();
}

std::string DeformConv(bool masked) {
  std::string text = R"(
graph(%x : Float(2, 4, 6, 5, strides=[120, 30, 5, 1]), %w : Float(4, 2, 3, 2, strides=[12, 6, 2, 1]), %o : Float(2, 24, 3, 5, strides=[360, 15, 5, 1]), %m : Float(2, 12, 3, 5, strides=[180, 15, 5, 1]), %b : Float(4, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %u : bool = prim::Constant[value=)";
  absl::StrAppend(&text, masked ? 1 : 0, R"(]()
  %y : Tensor = torchvision::deform_conv2d(%x, %w, %o, %m, %b, %two, %one, %one, %one, %one, %two, %two, %two, %u)
  %zero : int = prim::Constant[value=0]()
  %second : Tensor = aten::select.int(%y, %zero, %one)
  return (%second)
)");
  return text;
}

TEST(DetectionTest, DeformConv2dMultipliesElementsAtMovedPlaces) {
  const std::vector<Tensor> args = {Numbers({2, 4, 6, 5}), Numbers({4, 2, 3, 2}, 29), Numbers({2, 24, 3, 5}, 41, 25, 2),
                                    Numbers({2, 12, 3, 5}, 43, 100, 0), Numbers({4})};
  ExpectResults(DeformConv(true), args,
                {{-0.699524,  -0.782879, -1.03969,  -0.919806, -0.638059, -0.825395, -0.440451, -1.71332,  -0.929824,
                  -0.798484,  -0.986352, -1.05234,  -0.957532, -0.593976, -0.780781, -0.829161, -0.146439, 0.373226,
                  -0.0313342, -0.193805, 0.511868,  -0.136609, 0.87659,   -0.296144, 0.107688,  0.0719721, -0.0657279,
                  0.25165,    0.040636,  -0.12408,  1.30992,   0.694673,  0.67496,   0.751078,  0.825689,  0.826861,
                  0.718566,   0.756965,  0.835356,  0.384454,  0.723018,  0.763906,  0.511875,  0.859527,  1.0037,
                  -1.51535,   -0.365161, -0.601551, -0.61464,  -0.335374, -0.749872, -0.114044, -0.317498, -1.14033,
                  -1.08401,   -0.555345, -0.499433, -0.659365, -0.779827, -0.669284}});
  ExpectResults(DeformConv(false), args,
                {{-0.657101, -1.02673,   -1.08609,  -0.966982,  -0.638318, -0.682618, -0.391072, -2.04874,  -0.372787,
                  -0.967213, -1.27088,   -0.920106, -0.476899,  -0.464811, -0.559978, -1.07372,  -0.215748, 0.756697,
                  0.0174273, -0.19118,   0.520992,  -0.0145633, 1.14226,   -1.50771,  0.444609,  0.308814,  -0.228505,
                  0.0662682, 0.473182,   -0.38844,  1.78839,    0.39775,   0.512535,  0.977025,  0.838038,  0.951546,
                  0.503764,  0.460289,   1.03146,   0.315784,   0.787024,  1.25573,   0.410824,  0.845284,  1.54469,
                  -2.22347,  -0.0205473, -0.395306, -0.571479,  -0.205366, -0.780138, 0.172774,  0.994096,  -1.76043,
                  -1.23288,  -0.386624,  -0.59888,  -1.18264,   -0.731847, -0.603979}});
}

}  // namespace
}  // namespace smelt
