// The distance of float32 reductions from wider arithmetic: not larger than that of eager PyTorch, whose errors (root
// mean square, relative to the largest result) are noted next to the limits.
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/target.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

class AccuracyTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  }

  std::vector<float> Run(const std::string& text, const Tensor& x) {
    auto g = ParseModel(text);
    if (!g.ok()) return Fail(g.status());
    CompileOptions compile;
    compile.targets = {GetParam()};
    const std::string path = Scratch("accuracy.smb");
    if (auto s = CompileToFile(**g, path, compile); !s.ok()) return Fail(s.status());
    auto program = Program::Load(path);
    if (!program.ok()) return Fail(program.status());
    auto instance = Instance::Create(*program);
    if (!instance.ok()) return Fail(instance.status());
    auto out = (*instance)->Run({Datum(x)});
    if (!out.ok()) return Fail(out.status());
    const Tensor y = (*out)[0].tensor();
    return std::vector<float>(y.data_as<float>(), y.data_as<float>() + y.NumElements());
  }
  std::vector<float> Fail(const absl::Status& s) {
    ADD_FAILURE() << s;
    return {};
  }
};

Tensor Uniform(int64_t rows, int64_t columns, double from = 0, double to = 1) {
  Tensor t = Tensor::Empty(DType::kFloat32, {rows, columns});
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> value(static_cast<float>(from), static_cast<float>(to));
  for (int64_t i = 0; i < t.NumElements(); ++i) t.data_as<float>()[i] = value(rng);
  return t;
}

std::string Type(const Tensor& x) {
  return absl::StrCat("Float(", x.sizes()[0], ", ", x.sizes()[1], ", strides=[", x.sizes()[1], ", 1])");
}

// Visits the lines along `dim`: f(number, element k of the line).
using Element = std::function<long double(int64_t)>;
void ForLines(const Tensor& x, int dim, const std::function<void(int64_t, int64_t, const Element&)>& f) {
  const int64_t rows = x.sizes()[0], columns = x.sizes()[1];
  for (int64_t line = 0; line < (dim == 0 ? columns : rows); ++line) {
    f(line, dim == 0 ? rows : columns, [&, line](int64_t k) {
      return static_cast<long double>(x.data_as<float>()[dim == 0 ? k * columns + line : line * columns + k]);
    });
  }
}

double RootMeanSquare(const std::vector<float>& got, const std::vector<long double>& want) {
  EXPECT_EQ(got.size(), want.size());
  if (got.size() != want.size()) return INFINITY;
  long double squares = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    squares += (got[i] - want[i]) * (got[i] - want[i]);
    largest = std::max(largest, std::abs(want[i]));
  }
  return static_cast<double>(std::sqrt(squares / static_cast<long double>(got.size())) / largest);
}

struct Shape {
  int64_t rows, columns;
  int dim;
};
const Shape kShapes[] = {{64, 1000, 1}, {64, 1000, 0}, {2048, 48, 1}, {2048, 48, 0}, {8, 40000, 1}};

TEST_P(AccuracyTest, OfSums) {
  for (const Shape& s : kShapes) {
    const Tensor x = Uniform(s.rows, s.columns);
    std::vector<long double> want;
    ForLines(x, s.dim, [&](int64_t, int64_t n, const Element& at) {
      long double sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += at(k);
      want.push_back(sum);
    });
    const auto got = Run(absl::StrCat("graph(%x : ", Type(x), R"():
  %d : int[] = prim::Constant[value=[)",
                                      s.dim, R"(]]()
  %k : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %y : Tensor = aten::sum.dim_IntList(%x, %d, %k, %n)
  return (%y)
)"),
                         x);
    EXPECT_LE(RootMeanSquare(got, want), 6e-8) << s.rows << " " << s.columns << " " << s.dim;  // 4.5e-8 to 5.5e-8
  }
}

TEST_P(AccuracyTest, OfVariances) {
  for (const Shape& s : kShapes) {
    for (double shift : {0.0, 100.0}) {
      const Tensor x = Uniform(s.rows, s.columns, shift, shift + 1);
      std::vector<long double> want;
      ForLines(x, s.dim, [&](int64_t, int64_t n, const Element& at) {
        long double mean = 0, squares = 0;
        for (int64_t k = 0; k < n; ++k) mean += at(k) / static_cast<long double>(n);
        for (int64_t k = 0; k < n; ++k) squares += (at(k) - mean) * (at(k) - mean);
        want.push_back(squares / static_cast<long double>(n - 1));
      });
      const auto got = Run(absl::StrCat("graph(%x : ", Type(x), R"():
  %d : int[] = prim::Constant[value=[)",
                                        s.dim, R"(]]()
  %c : float = prim::Constant[value=1]()
  %k : bool = prim::Constant[value=0]()
  %y : Tensor = aten::var.correction(%x, %d, %c, %k)
  return (%y)
)"),
                           x);
      EXPECT_LE(RootMeanSquare(got, want), 3e-8) << s.rows << " " << s.columns << " " << s.dim;  // 2.7e-8
    }
  }
}

TEST_P(AccuracyTest, ADeviationWhoseSquareIsBeyondFloat32IsRight) {
  for (float scale : {1e20f, 1e-25f}) {
    Tensor x = Tensor::Empty(DType::kFloat32, {1, 4});
    for (int i = 0; i < 4; ++i) x.data_as<float>()[i] = i % 2 == 0 ? scale : -scale;
    const auto got = Run(R"(graph(%x : Float(1, 4, strides=[4, 1])):
  %d : int[] = prim::Constant[value=[1]]()
  %c : float = prim::Constant[value=0]()
  %k : bool = prim::Constant[value=0]()
  %y : Tensor = aten::std.correction(%x, %d, %c, %k)
  return (%y)
)",
                         x);
    EXPECT_EQ(got, std::vector<float>{scale});
  }
}

TEST_P(AccuracyTest, OfLogarithmsOfRunningSumsOfExponentials) {
  for (int dim : {0, 1}) {
    const Tensor x = Uniform(300, 400, -3, 3);
    std::vector<long double> want(x.NumElements());
    ForLines(x, dim, [&](int64_t line, int64_t n, const Element& at) {
      long double sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        sum += std::exp(at(k));
        want[dim == 0 ? k * x.sizes()[1] + line : line * x.sizes()[1] + k] = std::log(sum);
      }
    });
    const auto got = Run(absl::StrCat("graph(%x : ", Type(x), R"():
  %d : int = prim::Constant[value=)",
                                      dim, R"(]()
  %y : Tensor = aten::logcumsumexp(%x, %d)
  return (%y)
)"),
                         x);
    EXPECT_LE(RootMeanSquare(got, want), 2.6e-8);  // 2.0e-8 to 2.4e-8
  }
}

TEST_P(AccuracyTest, OfProductsOfFewRows) {
  for (int64_t k : {3, 8, 15, 17, 40, 48, 63, 1000}) {
    const Tensor x = Uniform(200, k);
    std::vector<long double> want;
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 200; ++j) {
        long double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += static_cast<long double>(x.data_as<float>()[i * k + l]) * x.data_as<float>()[j * k + l];
        want.push_back(sum);
      }
    }
    const auto got = Run(absl::StrCat("graph(%x : ", Type(x), R"():
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %three : int = prim::Constant[value=3]()
  %few : Tensor = aten::slice(%x, %zero, %zero, %three, %one)
  %t : Tensor = aten::t(%x)
  %y : Tensor = aten::mm(%few, %t)
  return (%y)
)"),
                         x);
    EXPECT_LE(RootMeanSquare(got, want), 4.5e-8) << k;  // 3e-8 to 4e-8
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AccuracyTest, testing::ValuesIn(kHostTargets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
