// Limits the differences of a program's results between the levels of x86-64 (docs/targets.md, "Levels"): every family
// of operators on every level that this machine has.
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/target.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

// 2^-22: four units in the last place of a number just above a power of two.
constexpr double kBound = 1.0 / (1 << 22);

Tensor Normal(std::vector<int64_t> sizes, double deviation = 1, double mean = 0) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  std::mt19937 rng(11);
  std::normal_distribution<float> value(static_cast<float>(mean), static_cast<float>(deviation));
  for (int64_t i = 0; i < t.NumElements(); ++i) t.data_as<float>()[i] = value(rng);
  return t;
}

std::string TypeOf(const Tensor& t) {
  std::string sizes, strides;
  for (int d = 0; d < t.rank(); ++d) {
    absl::StrAppend(&sizes, t.sizes()[d], ", ");
    absl::StrAppend(&strides, d > 0 ? ", " : "", t.strides()[d]);
  }
  return absl::StrCat("Float(", sizes, "strides=[", strides, "])");
}

absl::StatusOr<std::vector<float>> RunOn(Target level, const std::string& text, const std::vector<Tensor>& inputs) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ParseModel(text));
  CompileOptions options;
  options.targets = {level};
  const std::string path = Scratch("levels.smb");
  SMELT_RETURN_IF_ERROR(CompileToFile(*graph, path, options).status());
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(path));
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Instance::Create(program));
  std::vector<Datum> args;
  for (const Tensor& t : inputs) args.push_back(Datum(t));
  SMELT_ASSIGN_OR_RETURN(std::vector<Datum> out, instance->Run(args));
  const Tensor y = out[0].tensor().Clone();
  return std::vector<float>(y.data_as<float>(), y.data_as<float>() + y.NumElements());
}

// Returns the results of `%y = ...` for inputs %a, %b and %c on each level of this machine.
std::vector<std::vector<float>> OnEachLevel(const std::string& body, const std::vector<Tensor>& inputs) {
  std::string text = "graph(";
  for (size_t i = 0; i < inputs.size(); ++i)
    absl::StrAppend(&text, i > 0 ? ", " : "", "%", std::string(1, static_cast<char>('a' + i)), " : ",
                    TypeOf(inputs[i]));
  absl::StrAppend(&text, R"():
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %rows : int[] = prim::Constant[value=[0]]()
  %columns : int[] = prim::Constant[value=[1]]()
  %pair : int[] = prim::Constant[value=[1, 1]]()
  %nothing : int[] = prim::Constant[value=[0, 0]]()
  %half : float = prim::Constant[value=0.5]()
  %eps : float = prim::Constant[value=0.00001]()
  )",
                  body, "\n  return (%y)\n");
  std::vector<std::vector<float>> out;
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    auto result = RunOn(t, text, inputs);
    EXPECT_TRUE(result.ok()) << body << ": " << result.status();
    if (result.ok()) out.push_back(*std::move(result));
  }
  EXPECT_FALSE(out.empty());
  return out;
}

double Largest(const std::vector<float>& v) {
  double largest = 0;
  for (float x : v) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return largest;
}

// Each element differs by at most `bound` relative to itself and `besides`.
void ExpectNear(const std::string& body, const std::vector<Tensor>& inputs, double bound, const Tensor* besides) {
  const auto results = OnEachLevel(body, inputs);
  for (size_t a = 0; a < results.size(); ++a) {
    for (size_t b = a + 1; b < results.size(); ++b) {
      ASSERT_EQ(results[a].size(), results[b].size());
      for (size_t i = 0; i < results[a].size(); ++i) {
        const double x = results[a][i], y = results[b][i];
        if (std::isnan(x) || std::isinf(x)) {
          ASSERT_TRUE(std::isnan(x) ? std::isnan(y) : x == y) << body << " " << i;
          continue;
        }
        double scale = std::max(std::abs(x), std::abs(y));
        if (besides != nullptr) scale += std::abs(static_cast<double>(besides->data_as<float>()[i]));
        ASSERT_LE(std::abs(x - y), bound * scale + 1e-44) << body << " " << i << ": " << x << " and " << y;
      }
    }
  }
}

// Each element differs by at most `bound` relative to the result's largest element.
void ExpectNearInAll(const std::string& body, const std::vector<Tensor>& inputs, double bound) {
  const auto results = OnEachLevel(body, inputs);
  for (size_t a = 0; a < results.size(); ++a) {
    const double most = bound * Largest(results[a]);
    for (size_t b = a + 1; b < results.size(); ++b) {
      for (size_t i = 0; i < results[a].size(); ++i)
        ASSERT_LE(std::abs(results[a][i] - results[b][i]), most) << body << " " << i;
    }
  }
}

void ExpectEqual(const std::string& body, const std::vector<Tensor>& inputs) {
  const auto results = OnEachLevel(body, inputs);
  for (const auto& r : results)
    EXPECT_EQ(std::memcmp(r.data(), results[0].data(), r.size() * sizeof(float)), 0) << body;
}

TEST(LevelsTest, ArithmeticAndWhatMovesElementsIsEqual) {
  const Tensor x = Normal({64, 250}, 3), y = Normal({64, 250}, 100);
  for (const char* body :
       {"%t : Tensor = aten::mul.Tensor(%a, %b)\n  %y : Tensor = aten::add.Tensor(%t, %a, %one)",
        "%y : Tensor = aten::addcmul(%a, %a, %b, %one)", "%y : Tensor = aten::div.Tensor(%a, %b)",
        "%t : Tensor = aten::abs(%a)\n  %y : Tensor = aten::sqrt(%t)",
        "%t : Tensor = aten::abs(%a)\n  %y : Tensor = aten::rsqrt(%t)",
        "%y : Tensor = aten::lerp.Scalar(%a, %b, %half)", "%y : Tensor = aten::remainder.Tensor(%a, %b)",
        "%y : Tensor = aten::maximum(%a, %b)", "%y : Tensor = aten::amax(%a, %columns, %no)",
        "%y : Tensor = aten::cumsum(%a, %one, %none)", "%y : Tensor = aten::pow.Tensor_Tensor(%b, %a)",
        "%y : Tensor = aten::atan2(%a, %b)", "%y : Tensor = aten::mse_loss(%a, %b, %one)"}) {
    ExpectEqual(body, {x, y});
  }
}

TEST(LevelsTest, ProductsAndConvolutionsOfTheLibraryAreEqual) {
  ExpectEqual("%y : Tensor = aten::mm(%a, %b)", {Normal({50, 130}), Normal({130, 40})});
  ExpectEqual("%y : Tensor = aten::mm(%a, %b)", {Normal({500, 3}), Normal({3, 3})});
  ExpectEqual("%y : Tensor = aten::bmm(%a, %b)", {Normal({40, 3, 3}), Normal({40, 3, 3})});
  ExpectEqual("%y : Tensor = aten::conv2d(%a, %b, %none, %pair, %nothing, %pair, %one)",
              {Normal({2, 8, 12, 12}), Normal({8, 8, 3, 3})});
}

TEST(LevelsTest, ElementaryFunctionsDifferByAFewLastPlaces) {
  const Tensor wide = Normal({64, 250}, 3), unit = Normal({64, 250}, 0.3);
  for (const char* f : {"exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf",
                        "erfc", "sigmoid", "silu", "mish"})
    ExpectNear(absl::StrCat("%y : Tensor = aten::", f, "(%a)"), {wide}, 2 * kBound, nullptr);
  for (const char* f : {"log", "log2", "log10", "log1p"})
    ExpectNear(absl::StrCat("%t : Tensor = aten::abs(%a)\n  %y : Tensor = aten::", f, "(%t)"), {wide}, 2 * kBound,
               nullptr);
  for (const char* f : {"asin", "acos", "atanh", "erfinv"})
    ExpectNear(absl::StrCat("%y : Tensor = aten::", f, "(%a)"), {unit}, 2 * kBound, nullptr);
}

TEST(LevelsTest, GeluDiffersByAFewLastPlacesOfItsOperand) {
  // Below 0 its formula cancels.
  const Tensor x = Normal({64, 250}, 3);
  ExpectNear("%t : str = prim::Constant[value=\"none\"]()\n  %y : Tensor = aten::gelu(%a, %t)", {x}, kBound, &x);
  ExpectNear("%t : str = prim::Constant[value=\"tanh\"]()\n  %y : Tensor = aten::gelu(%a, %t)", {x}, kBound, &x);
}

TEST(LevelsTest, ReductionsDifferByAFewLastPlacesOfTheLargestResult) {
  for (const Tensor& x : {Normal({64, 1000}), Normal({64, 1000}, 1, 10)}) {
    for (const char* dims : {"%rows", "%columns"}) {
      for (const char* body : {"aten::sum.dim_IntList(%a, $, %no, %none)", "aten::mean.dim(%a, $, %no, %none)",
                               "aten::var.correction(%a, $, %one, %no)", "aten::logsumexp(%a, $, %no)",
                               "aten::linalg_vector_norm(%a, %one, $, %no, %none)"}) {
        std::string text = absl::StrCat("%y : Tensor = ", body);
        ExpectNearInAll(text.replace(text.find('$'), 1, dims), {x}, kBound);
      }
    }
  }
}

TEST(LevelsTest, AProductDiffersByLastPlacesForEachOfItsFactors) {
  const int64_t n = 1000;
  ExpectNear("%y : Tensor = aten::prod.dim_int(%a, %one, %no, %none)", {Normal({64, n}, 0.02, 1)},
             static_cast<double>(n) / (1 << 24), nullptr);
}

TEST(LevelsTest, SoftmaxAndNormsDifferByAFewLastPlacesOfTheLargestResult) {
  const Tensor x = Normal({64, 1000});
  for (const char* dim : {"%zero", "%one"}) {
    ExpectNearInAll(absl::StrCat("%y : Tensor = aten::softmax.int(%a, ", dim, ", %none)"), {x}, kBound);
    ExpectNearInAll(absl::StrCat("%y : Tensor = aten::log_softmax.int(%a, ", dim, ", %none)"), {x}, kBound);
  }
  const std::string size = "%n : int[] = prim::Constant[value=[1000]]()\n  ";
  ExpectNearInAll(size + "%y : Tensor = aten::layer_norm(%a, %n, %none, %none, %eps, %no)", {x}, kBound);
  ExpectNearInAll(size + "%y : Tensor = aten::rms_norm(%a, %n, %none, %eps)", {x}, kBound);
  ExpectNearInAll(
      "%n : int = prim::Constant[value=4]()\n  %y : Tensor = aten::group_norm(%a, %n, %none, %none, %eps, %no)",
      {Normal({4, 8, 6, 6})}, kBound);
}

TEST(LevelsTest, AttentionDiffersByAFewLastPlacesOfTheLargestResult) {
  const std::vector<int64_t> sizes = {2, 2, 40, 16};
  ExpectNearInAll(
      "%p : float = prim::Constant[value=0]()\n"
      "  %y : Tensor = aten::scaled_dot_product_attention(%a, %b, %c, %none, %p, %no, %none, %no)",
      {Normal(sizes), Normal(sizes, 2), Normal(sizes, 1, 1)}, kBound);
}

}  // namespace
}  // namespace smelt
