#include "smelt/bench/workloads.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"
#include "smelt/pipeline/complete_types.h"

namespace smelt::bench {
namespace {

constexpr double kM16 = 1 << 24;

std::string Type(const std::vector<int>& sizes, const char* dtype = "Float") {
  std::vector<int> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return absl::StrCat(dtype, "(", absl::StrJoin(sizes, ", "), ", strides=[", absl::StrJoin(strides, ", "), "])");
}

// Declares weights, each in its own storage.
class Weights {
 public:
  void Add(const std::string& name, const std::vector<int>& sizes, const char* kind = "parameter") {
    int bytes = 4;
    for (int s : sizes) bytes *= s;
    absl::StrAppend(&storages_, "  storage ", count_, " bytes ", bytes, "\n");
    absl::StrAppend(&weights_, "  weight ", count_, " \"", name, "\" ", kind, " storage ", count_, " ", Type(sizes),
                    "\n");
    absl::StrAppend(&inputs_, inputs_.empty() ? "" : ", ", "%", name, " : ", Type(sizes), " = weight ", count_);
    ++count_;
  }
  std::string declarations() const { return storages_ + weights_; }
  std::string inputs() const { return inputs_; }

 private:
  int count_ = 0;
  std::string storages_, weights_, inputs_;
};

std::string In(const std::string& name, const std::vector<int>& sizes, const char* dtype = "Float") {
  return absl::StrCat("%", name, " : ", Type(sizes, dtype));
}

Workload Make(std::string name, std::string inputs, std::string nodes, std::string outputs, double read, double written,
              double best_peer, double at_most) {
  Workload w;
  w.name = std::move(name);
  w.inputs = std::move(inputs);
  w.nodes = std::move(nodes);
  w.outputs = std::move(outputs);
  w.read_bytes = read;
  w.written_bytes = written;
  w.best_peer_ms = best_peer;
  w.at_most_ms = at_most;
  return w;
}

std::string Cell(const std::string& gates, const std::string& c, const std::string& t) {
  return absl::StrCat("  %i", t, " = aten::slice(%", gates, ", {1}, {0}, {256}, {1})\n  %f", t, " = aten::slice(%",
                      gates, ", {1}, {256}, {512}, {1})\n  %g", t, " = aten::slice(%", gates,
                      ", {1}, {512}, {768}, {1})\n  %o", t, " = aten::slice(%", gates,
                      ", {1}, {768}, {1024}, {1})\n  %sf", t, " = aten::sigmoid(%f", t, ")\n  %si", t,
                      " = aten::sigmoid(%i", t, ")\n  %tg", t, " = aten::tanh(%g", t, ")\n  %fc", t, " = aten::mul(%sf",
                      t, ", %", c, ")\n  %ig", t, " = aten::mul(%si", t, ", %tg", t, ")\n  %c", t, " = aten::add(%fc",
                      t, ", %ig", t, ", {1})\n  %so", t, " = aten::sigmoid(%o", t, ")\n  %tc", t, " = aten::tanh(%c", t,
                      ")\n  %h", t, " = aten::mul(%so", t, ", %tc", t, ")\n");
}

Workload Lstm() {
  Weights weights;
  weights.Add("wi", {1024, 256});
  weights.Add("wh", {1024, 256});
  weights.Add("b", {1024});
  std::string nodes = "  %wit = aten::t(%wi)\n  %wht = aten::t(%wh)\n";
  std::vector<std::string> hs;
  for (int t = 0; t < 100; ++t) {
    const std::string h = t ? absl::StrCat("h", t - 1) : "h", c = t ? absl::StrCat("c", t - 1) : "c";
    absl::StrAppend(&nodes, "  %x", t, " = aten::select(%x, {0}, {", t, "})\n  %xi", t, " = aten::matmul(%x", t,
                    ", %wit)\n  %hh", t, " = aten::matmul(%", h, ", %wht)\n  %s", t, " = aten::add(%xi", t, ", %hh", t,
                    ", {1})\n  %gates", t, " = aten::add(%s", t, ", %b, {1})\n",
                    Cell(absl::StrCat("gates", t), c, absl::StrCat(t)));
    hs.push_back(absl::StrCat("%h", t));
  }
  absl::StrAppend(&nodes, "  %list : Tensor[] = prim::ListConstruct(", absl::StrJoin(hs, ", "),
                  ")\n  %out = aten::stack(%list, {0})\n");
  Workload w = Make("lstm100", absl::StrJoin({In("x", {100, 64, 256}), In("h", {64, 256}), In("c", {64, 256})}, ", "),
                    nodes, "%out, %h99, %c99", 4 * (100 * 64 * 256 + 2 * 64 * 256 + 2 * 1024 * 256 + 1024),
                    4 * (100 * 64 * 256 + 2 * 64 * 256), 36.0, 30);
  w.weights = weights.declarations();
  w.inputs = absl::StrCat(weights.inputs(), ", ", w.inputs);
  w.flops = 100.0 * 2 * 64 * 1024 * 512;
  return w;
}

Workload Mlp() {
  Weights weights;
  weights.Add("w1", {1024, 256});
  weights.Add("b1", {1024});
  weights.Add("w2", {256, 1024});
  weights.Add("b2", {256});
  Workload w = Make("mlp", absl::StrCat(weights.inputs(), ", ", In("x", {64, 256})),
                    "  %h = aten::linear(%x, %w1, %b1)\n  %a = aten::gelu(%h, {\"none\"})\n"
                    "  %y = aten::linear(%a, %w2, %b2)\n",
                    "%y", 4 * (2 * 256 * 1024 + 1280 + 64 * 256), 4 * 64 * 256, 0.299, 0.285);
  w.weights = weights.declarations();
  w.flops = 2.0 * 64 * 2 * 256 * 1024;
  return w;
}

Workload Attention() {
  Weights weights;
  weights.Add("kc", {1, 8, 2048, 64}, "buffer");
  weights.Add("vc", {1, 8, 2048, 64}, "buffer");
  Workload w = Make(
      "kv_attention",
      absl::StrJoin({weights.inputs(), In("q", {1, 8, 1, 64}), In("k", {1, 8, 1, 64}), In("v", {1, 8, 1, 64})}, ", "),
      "  %ks = aten::slice(%kc, {2}, {1000}, {1001}, {1})\n  %k1 = aten::copy_(%ks, %k, {False})\n"
      "  %vs = aten::slice(%vc, {2}, {1000}, {1001}, {1})\n  %v1 = aten::copy_(%vs, %v, {False})\n"
      "  %kt = aten::transpose(%kc, {-1}, {-2})\n  %s = aten::matmul(%q, %kt)\n"
      "  %scaled = aten::mul(%s, {0.125})\n  %p = aten::softmax(%scaled, {-1}, {None})\n"
      "  %y = aten::matmul(%p, %vc)\n",
      "%y", 2 * 4 * double(1 << 20), 4 * 6 * 512, 0.132, 0.085);
  w.weights = weights.declarations();
  return w;
}

Workload Transformer() {
  Weights weights;
  std::string nodes;
  std::string x = "x";
  for (int l = 0; l < 2; ++l) {
    auto name = [&](const char* n) { return absl::StrCat(n, l); };
    weights.Add(name("wqkv"), {768, 256});
    weights.Add(name("bqkv"), {768});
    weights.Add(name("wo"), {256, 256});
    weights.Add(name("bo"), {256});
    weights.Add(name("w1"), {1024, 256});
    weights.Add(name("b1"), {1024});
    weights.Add(name("w2"), {256, 1024});
    weights.Add(name("b2"), {256});
    for (const char* n : {"ga", "gab", "gb", "gbb"}) weights.Add(name(n), {256});
    absl::StrAppend(&nodes, "  %h", l, " = aten::layer_norm(%", x, ", {[256]}, %ga", l, ", %gab", l,
                    ", {1e-05}, {True})\n  %qkv", l, " = aten::linear(%h", l, ", %wqkv", l, ", %bqkv", l, ")\n  %v5", l,
                    " = aten::view(%qkv", l, ", {[1, 128, 3, 4, 64]})\n  %pm", l, " = aten::permute(%v5", l,
                    ", {[2, 0, 3, 1, 4]})\n  %q", l, " = aten::select(%pm", l, ", {0}, {0})\n  %k", l,
                    " = aten::select(%pm", l, ", {0}, {1})\n  %v", l, " = aten::select(%pm", l, ", {0}, {2})\n  %kt", l,
                    " = aten::transpose(%k", l, ", {-1}, {-2})\n  %s", l, " = aten::matmul(%q", l, ", %kt", l,
                    ")\n  %sc", l, " = aten::mul(%s", l, ", {0.125})\n  %p", l, " = aten::softmax(%sc", l,
                    ", {-1}, {None})\n  %a", l, " = aten::matmul(%p", l, ", %v", l, ")\n  %at", l,
                    " = aten::transpose(%a", l, ", {1}, {2})\n  %ar", l, " = aten::reshape(%at", l,
                    ", {[1, 128, 256]})\n  %ao", l, " = aten::linear(%ar", l, ", %wo", l, ", %bo", l, ")\n  %x1", l,
                    " = aten::add(%", x, ", %ao", l, ", {1})\n  %h2", l, " = aten::layer_norm(%x1", l, ", {[256]}, %gb",
                    l, ", %gbb", l, ", {1e-05}, {True})\n  %m1", l, " = aten::linear(%h2", l, ", %w1", l, ", %b1", l,
                    ")\n  %m2", l, " = aten::gelu(%m1", l, ", {\"none\"})\n  %m3", l, " = aten::linear(%m2", l, ", %w2",
                    l, ", %b2", l, ")\n  %x2", l, " = aten::add(%x1", l, ", %m3", l, ", {1})\n");
    x = absl::StrCat("x2", l);
  }
  const double parameters = 2 * (768 * 256 + 768 + 256 * 256 + 256 + 2 * 1024 * 256 + 1024 + 256 + 4 * 256);
  Workload w = Make("transformer2", absl::StrCat(weights.inputs(), ", ", In("x", {1, 128, 256})), nodes,
                    absl::StrCat("%", x), 4 * (parameters + 128 * 256), 4 * 128 * 256, 1.98, 1.9);
  w.weights = weights.declarations();
  w.flops = 2.0 * (2 * 128 * (768 * 256 + 256 * 256 + 2 * 256 * 1024) + 4 * 4 * 128 * 128 * 64);
  return w;
}

Workload Cnn() {
  struct Conv {
    const char* name;
    int in, out, stride;
  };
  const Conv convs[] = {{"c0", 3, 32, 1},  {"c1", 32, 32, 1}, {"c2", 32, 32, 1},
                        {"c3", 32, 64, 2}, {"c4", 64, 64, 1}, {"s3", 32, 64, 2}};
  Weights weights;
  double parameters = 650, flops = 0;
  for (const Conv& c : convs) {
    const int k = c.name[0] == 's' ? 1 : 3;
    weights.Add(absl::StrCat(c.name, "w"), {c.out, c.in, k, k});
    for (const char* n : {"g", "b"}) weights.Add(absl::StrCat(c.name, n), {c.out});
    for (const char* n : {"m", "v"}) weights.Add(absl::StrCat(c.name, n), {c.out}, "buffer");
    parameters += c.in * c.out * k * k + 4 * c.out;
    flops += 2.0 * c.in * c.out * k * k * (c.out == 32 ? 4096 : 1024);
  }
  weights.Add("fw", {10, 64});
  weights.Add("fb", {10});
  auto block = [&](const Conv& c, const char* x) {
    const int pad = c.name[0] == 's' ? 0 : 1;
    return absl::StrCat("  %", c.name, "y = aten::conv2d(%", x, ", %", c.name, "w, {None}, {[", c.stride, ", ",
                        c.stride, "]}, {[", pad, ", ", pad, "]}, {[1, 1]}, {1})\n  %", c.name, "n = aten::batch_norm(%",
                        c.name, "y, %", c.name, "g, %", c.name, "b, %", c.name, "m, %", c.name,
                        "v, {False}, {0.0}, {1e-05}, {True})\n");
  };
  std::string nodes = absl::StrCat(
      block(convs[0], "x"), "  %r0 = aten::relu(%c0n)\n", block(convs[1], "r0"), "  %r1 = aten::relu(%c1n)\n",
      block(convs[2], "r1"), "  %a2 = aten::add(%c2n, %r0, {1})\n  %r2 = aten::relu(%a2)\n", block(convs[3], "r2"),
      "  %r3 = aten::relu(%c3n)\n", block(convs[4], "r3"), block(convs[5], "r2"),
      "  %a4 = aten::add(%c4n, %s3n, {1})\n  %r4 = aten::relu(%a4)\n"
      "  %pool = aten::mean(%r4, {[2, 3]}, {False}, {None})\n  %y = aten::linear(%pool, %fw, %fb)\n");
  Workload w = Make("small_cnn", absl::StrCat(weights.inputs(), ", ", In("x", {1, 3, 64, 64})), nodes, "%y",
                    4 * (3 * 64 * 64 + parameters), 40, 1.12, 1.1);
  w.weights = weights.declarations();
  w.flops = flops;
  return w;
}

}  // namespace

std::vector<Workload> AllWorkloads() {
  std::vector<Workload> all;
  const std::string flat = In("a", {1 << 24}) + ", " + In("b", {1 << 24});
  const std::string rows = In("x", {16384, 1024});
  all.push_back(Make("tanh_sigmoid", absl::StrCat(flat, ", ", In("c", {1 << 24})),
                     "  %ab = aten::mul(%a, %b)\n  %abc = aten::add(%ab, %c, {1})\n  %t = aten::tanh(%abc)\n"
                     "  %s = aten::sigmoid(%a)\n  %y = aten::mul(%t, %s)\n",
                     "%y", 12 * kM16, 4 * kM16, 8.41, 6.2));
  all.push_back(Make("bias_gelu", rows + ", " + In("bias", {1024}),
                     "  %s = aten::add(%x, %bias, {1})\n  %y = aten::gelu(%s, {\"none\"})\n", "%y", 4 * kM16, 4 * kM16,
                     6.3, 4.5));
  all.push_back(Make(
      "chain30", flat,
      "  %1 = aten::mul(%a, %b)\n  %2 = aten::add(%1, %a, {1})\n  %3 = aten::tanh(%2)\n  %4 = aten::mul(%3, {0.5})\n"
      "  %5 = aten::sub(%4, %b, {1})\n  %6 = aten::abs(%5)\n  %7 = aten::add(%6, {1.0}, {1})\n  %8 = aten::sqrt(%7)\n"
      "  %9 = aten::mul(%8, %a)\n  %10 = aten::sigmoid(%9)\n  %11 = aten::add(%10, %b, {1})\n  %12 = aten::relu(%11)\n"
      "  %13 = aten::mul(%12, %12)\n  %14 = aten::add(%13, {0.25}, {1})\n  %15 = aten::rsqrt(%14)\n"
      "  %16 = aten::minimum(%15, %a)\n  %17 = aten::neg(%16)\n  %18 = aten::clamp(%17, {-4.0}, {4.0})\n"
      "  %19 = aten::exp(%18)\n  %20 = aten::add(%19, {1.0}, {1})\n  %21 = aten::log(%20)\n"
      "  %22 = aten::add(%21, {2.0}, {1})\n  %23 = aten::div(%21, %22)\n  %24 = aten::gt(%23, %b)\n"
      "  %25 = aten::where(%24, %23, %a)\n  %26 = aten::maximum(%25, %b)\n  %27 = aten::sin(%26)\n"
      "  %28 = aten::abs(%27)\n  %29 = aten::add(%28, {1.0}, {1})\n  %y = aten::reciprocal(%29)\n",
      "%y", 8 * kM16, 4 * kM16, 59.1, 40));
  all.push_back(Make("softmax", rows, "  %y = aten::softmax(%x, {-1}, {None})\n", "%y", 4 * kM16, 4 * kM16, 4.19, 3.2));
  all.push_back(Make("layernorm_residual",
                     absl::StrJoin({rows, In("r", {16384, 1024}), In("w", {1024}), In("b", {1024})}, ", "),
                     "  %s = aten::add(%x, %r, {1})\n"
                     "  %y = aten::layer_norm(%s, {[1024]}, %w, %b, {1e-05}, {True})\n",
                     "%y", 8 * kM16, 4 * kM16, 7.84, 4.0));
  all.push_back(Make("rmsnorm_bf16", In("x", {16384, 1024}, "BFloat16") + ", " + In("w", {1024}, "BFloat16"),
                     "  %f = aten::to(%x, {6}, {False}, {False}, {None})\n  %sq = aten::pow(%f, {2})\n"
                     "  %m = aten::mean(%sq, {[-1]}, {True}, {None})\n  %e = aten::add(%m, {1e-06}, {1})\n"
                     "  %rs = aten::rsqrt(%e)\n  %n = aten::mul(%f, %rs)\n"
                     "  %nb = aten::to(%n, {15}, {False}, {False}, {None})\n  %y = aten::mul(%nb, %w)\n",
                     "%y", 2 * kM16, 2 * kM16, 2.74, 1.6));
  all.push_back(
      Make("sum_dim0", rows, "  %y = aten::sum(%x, {[0]}, {False}, {None})\n", "%y", 4 * kM16, 4096, 1.83, 1.27));
  all.push_back(Make("sum_all", rows, "  %y = aten::sum(%x, {None})\n", "%y", 4 * kM16, 4, 1.15, 1.12));
  all.push_back(Make("var_mean", rows, "  %v, %m = aten::var_mean(%x, {[1]}, {1}, {False})\n", "%v, %m", 4 * kM16,
                     8 * 16384, 2.80, 1.27));
  all.push_back(Make("transpose_add", In("a", {4096, 4096}) + ", " + In("b", {4096, 4096}),
                     "  %t = aten::t(%a)\n  %y = aten::add(%t, %b, {1})\n", "%y", 8 * kM16, 4 * kM16, 9.89, 4.2));
  all.push_back(Make("strided_broadcast", In("x", {256, 128, 1024}) + ", " + In("y", {64}),
                     "  %s = aten::slice(%x, {1}, {0}, {9223372036854775807}, {2})\n  %u = aten::unsqueeze(%y, {0})\n"
                     "  %v = aten::unsqueeze(%u, {2})\n  %z = aten::mul(%s, %v)\n",
                     "%z", 4 * kM16, 4 * kM16, 4.43, 2.8));
  all.push_back(Make("strided_last", In("x", {16384, 2048}) + ", " + In("y", {16384, 2048}),
                     "  %s = aten::slice(%x, {1}, {0}, {9223372036854775807}, {2})\n"
                     "  %t = aten::slice(%y, {1}, {1}, {9223372036854775807}, {2})\n  %z = aten::add(%s, %t, {1})\n",
                     "%z", 16 * kM16, 4 * kM16, 8.08, 7));
  all.push_back(Attention());
  all.push_back(Make("lstm_cell", In("gates", {64, 1024}) + ", " + In("c", {64, 256}), Cell("gates", "c", "0"),
                     "%h0, %c0", 4 * 64 * (1024 + 256), 4 * 64 * 2 * 256, 0.0195, 0.014));
  all.push_back(Mlp());
  all.push_back(Lstm());
  all.push_back(Transformer());
  all.push_back(Cnn());
  all.push_back(Make("add_1k", In("a", {1024}), "  %y = aten::add(%a, {1}, {1})\n", "%y", 4096, 4096, 0.0019, 0.0005));
  return all;
}

std::vector<Workload> WritingWorkloads() {
  std::vector<Workload> all;
  all.push_back(Make("write_beside", In("x", {4, 8}) + ", " + In("y", {512, 512}),
                     "  %x1 = aten::add_(%x, {1}, {1})\n  %s = aten::sigmoid(%y)\n  %m = aten::mul(%s, %y)\n"
                     "  %z = aten::add(%m, {1}, {1})\n",
                     "%z", 4 * 512 * 512, 4 * 512 * 512, 0, 0));
  all.push_back(Make("write_and_return", In("x", {512, 512}) + ", " + In("y", {512, 512}),
                     "  %x1 = aten::add_(%x, %y, {1})\n  %s = aten::sigmoid(%y)\n  %m = aten::mul(%s, %x1)\n",
                     "%m, %x1", 8 * 512 * 512, 8 * 512 * 512, 0, 0));
  Weights weights;
  for (const char* n : {"g", "b"}) weights.Add(n, {16});
  for (const char* n : {"m", "v"}) weights.Add(n, {16}, "buffer");
  Workload norm = Make("batch_norm_train", absl::StrCat(weights.inputs(), ", ", In("x", {8, 16, 64, 64})),
                       "  %y = aten::batch_norm(%x, %g, %b, %m, %v, {True}, {0.1}, {1e-05}, {True})\n", "%y",
                       4 * 8 * 16 * 64 * 64, 4 * 8 * 16 * 64 * 64, 0, 0);
  norm.weights = weights.declarations();
  all.push_back(std::move(norm));
  return all;
}

absl::StatusOr<std::unique_ptr<Graph>> BuildGraph(const Workload& w) {
  // Turns constants in braces into nodes.
  std::map<std::string, std::string> names;
  std::string constants, nodes;
  const std::string& text = w.nodes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') {
      nodes += text[i];
      continue;
    }
    const size_t end = text.find('}', i);
    const std::string value = text.substr(i + 1, end - i - 1);
    i = end;
    auto [it, fresh] = names.try_emplace(value, absl::StrCat("%const", names.size()));
    absl::StrAppend(&nodes, it->second);
    if (!fresh) continue;
    const bool is_float = value.find('.') != std::string::npos || value.find("e-") != std::string::npos;
    const char* type = value == "None"                       ? "NoneType"
                       : value == "True" || value == "False" ? "bool"
                       : value[0] == '"'                     ? "str"
                       : value[0] == '['                     ? "int[]"
                       : is_float                            ? "float"
                                                             : "int";
    absl::StrAppend(&constants, "  ", it->second, " : ", type, " = prim::Constant",
                    value == "None" ? "" : absl::StrCat("[value=", value, "]"), "()\n");
  }
  const std::string whole = absl::StrCat("graph @", w.name, "(", w.inputs, "):\n", w.weights, constants, nodes,
                                         "  return (", w.outputs, ")\n");
  ParseOptions options;
  options.file_name = w.name;
  options.resolve_overload = ResolveOverload;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ParseGraph(whole, options));
  SMELT_RETURN_IF_ERROR(CompleteTypes(*g));
  uint32_t seed = 1;
  for (auto& storage : g->weight_storages) {
    auto filled = Storage::Allocate(storage->bytes());
    auto* v = reinterpret_cast<float*>(filled->data());
    for (int64_t i = 0; i < filled->bytes() / 4; ++i) {
      seed = seed * 1664525 + 1013904223;
      v[i] = static_cast<float>(seed >> 9) * 0x1p-26f + 0.01f;  // positive: variances are among them
    }
    storage = filled;
  }
  return g;
}

}  // namespace smelt::bench
