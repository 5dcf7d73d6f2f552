// Writes models of five families for measuring `smelt convert`: half as text, half as archives. The same arguments give
// the same files.
//
//   make_models OUT_DIR [COUNT [BYTES]]    COUNT models (200), one of them with weights of about BYTES (2 GB; 0: none)
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "smelt/bench/model_writer.h"

namespace smelt::bench {
namespace {

Tensor Linear(ModelWriter& m, const Tensor& x, const std::string& name, int64_t out) {
  const Tensor w = m.Weight(name + "_weight", {out, x.sizes.back()}), b = m.Weight(name + "_bias", {out});
  return m.Op("aten::linear", "aten.linear.default", {{"input", x}, {"weight", w}, {"bias", b}}, {x.sizes[0], out});
}
Tensor Unary(ModelWriter& m, const std::string& op, const Tensor& x) {
  return m.Op("aten::" + op, "aten." + op + ".default", {{"self", x}}, x.sizes);
}
Tensor Binary(ModelWriter& m, const std::string& op, const Tensor& a, const Tensor& b) {
  Arguments arguments = {{"self", a}, {"other", b}};
  if (op.rfind("add", 0) == 0 || op.rfind("sub", 0) == 0) arguments.push_back({"alpha", int64_t{1}});
  return m.Op("aten::" + op + ".Tensor", "aten." + op + ".Tensor", arguments, a.sizes);
}
Tensor Scaled(ModelWriter& m, const std::string& op, const Tensor& a, double by) {
  return m.Op("aten::" + op + ".Scalar", "aten." + op + ".Scalar", {{"self", a}, {"other", by}}, a.sizes);
}

// Linear layers with an in-place activation and a residual.
void Mlp(ModelWriter& m, int i, int64_t width, int layers) {
  Tensor x = m.Input("x", {4 + i % 5, width});
  for (int k = 0; k < layers; ++k) {
    const Tensor h = Unary(m, "relu_", Linear(m, x, absl::StrCat("fc", k), width));
    x = Binary(m, "add", h, x);
  }
  m.Output(x);
}

// A chain of pointwise operators, some in place.
void Gated(ModelWriter& m, int i) {
  const std::vector<int64_t> sizes = {8 + i, 16 + i % 7};
  const Tensor a = m.Input("a", sizes), b = m.Input("b", sizes);
  const Tensor gate = Unary(m, "sigmoid", Binary(m, "mul", a, b));
  Tensor t = Unary(m, "tanh", Binary(m, "add", a, gate));
  if (i % 2 == 0) t = Unary(m, "relu_", t);
  m.Output(Binary(m, "mul_", t, gate));
}

// Layer norm, gelu, softmax over the last dim.
void Norm(ModelWriter& m, int i) {
  const int64_t width = 32 + 8 * (i % 6);
  const Tensor x = m.Input("x", {2 + i % 9, width});
  const Tensor w = m.Weight("w", {width}), b = m.Weight("b", {width});
  const Tensor y = m.Op("aten::layer_norm", "aten.layer_norm.default",
                        {{"input", x},
                         {"normalized_shape", std::vector<int64_t>{width}},
                         {"weight", w},
                         {"bias", b},
                         {"eps", 1e-5},
                         {"cudnn_enable", false}},
                        x.sizes);
  const Tensor z = Binary(m, "add", Unary(m, "silu", y), x);
  m.Output(m.Op("aten::_softmax", "aten._softmax.default", {{"self", z}, {"dim", int64_t{1}}, {"half_to_float", false}},
                z.sizes));
}

// The cell of an LSTM, unrolled: its gates are views of one product.
void Cell(ModelWriter& m, int i) {
  const int64_t n = 2 + i % 4, width = 16 + 8 * (i % 3);
  Tensor h = m.Input("h", {n, width}), c = m.Input("c", {n, width});
  for (int step = 0; step < 2 + i % 3; ++step) {
    const Tensor all = Linear(m, h, absl::StrCat("step", step), 4 * width);
    auto gate = [&](int64_t k) {
      return m.Op(
          "aten::slice.Tensor", "aten.slice.Tensor",
          {{"self", all}, {"dim", int64_t{1}}, {"start", k * width}, {"end", (k + 1) * width}, {"step", int64_t{1}}},
          {n, width}, {4 * width, 1});
    };
    const Tensor in = Unary(m, "sigmoid", gate(0)), forget = Unary(m, "sigmoid", gate(1));
    const Tensor out = Unary(m, "sigmoid", gate(2)), next = Unary(m, "tanh", gate(3));
    c = Binary(m, "add", Binary(m, "mul", forget, c), Binary(m, "mul", in, next));
    h = Binary(m, "mul", out, Unary(m, "tanh", c));
  }
  m.Output(h);
  m.Output(c);
}

// A running mean in a buffer that each call writes, and an argument that is written.
void State(ModelWriter& m, int i) {
  const int64_t width = 24 + i % 11;
  const Tensor x = m.Input("x", {6, width});
  const Tensor mean = m.Weight("mean", {6, width}, /*buffer=*/true);
  Scaled(m, "mul_", mean, 0.9);
  Binary(m, "add_", mean, Scaled(m, "mul", x, 0.1));
  m.Output(Binary(m, "sub_", x, mean));
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: %s OUT_DIR [COUNT [BYTES]]\n", argv[0]);
    return 2;
  }
  const std::filesystem::path out = argv[1];
  const int count = argc > 2 ? std::atoi(argv[2]) : 200;
  const double bytes = argc > 3 ? std::atof(argv[3]) : 2e9;
  const char* const families[] = {"mlp", "gated", "norm", "cell", "state"};
  for (int i = 0; i < count; ++i) {
    const int family = i % 5, member = i / 5;
    const bool big = i == 0 && bytes > 0;
    const bool text = member % 2 == 1;
    const std::string name = big ? "big" : absl::StrCat(families[family], "_", member);
    ModelWriter m(name);
    switch (family) {
      case 0:
        // Eight square matrices make up nearly all of the big model.
        big ? Mlp(m, member, static_cast<int64_t>(std::sqrt(bytes / 4 / 8)), 8)
            : Mlp(m, member, 16 + 16 * (member % 4), 2);
        break;
      case 1:
        Gated(m, member);
        break;
      case 2:
        Norm(m, member);
        break;
      case 3:
        Cell(m, member);
        break;
      default:
        State(m, member);
    }
    const std::filesystem::path folder = out / families[family];
    std::filesystem::create_directories(folder);
    const std::string path = (folder / (name + (text ? ".ir" : ".pt2"))).string();
    if (!(text ? m.WriteText(path) : m.WritePt2(path))) {
      std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
      return 6;
    }
  }
  return 0;
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) { return smelt::bench::Main(argc, argv); }
