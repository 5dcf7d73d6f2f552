// Times each way to compute a convolution beside the one that is chosen, over a grid of shapes, on one thread: the ways
// take turns within one run. Prints for each shape and layout the chosen way, its time as a multiple of the fastest, and
// the time of each way in microseconds with its estimate as a multiple of that of the chosen one.
//
//   bazel run -c opt //bench:convolutions -- [--only=3x3,depthwise] [--turns=N]
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/library.h"

namespace smelt::bench {
namespace {

using library_internal::MadeConvolution;

struct Case {
  const char* kind;
  int64_t batch, in_channels, out_channels, groups;
  std::vector<int64_t> size, kernel;
  int64_t stride = 1, dilation = 1;
  DType dtype = DType::kFloat32;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int64_t size : {7, 14, 28, 56}) {
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{64, 64}, {64, 256}, {256, 64}, {512, 512}}) {
      cases.push_back({"1x1", 1, from, to, 1, {size, size}, {1, 1}});
      if (from * to * size * size <= int64_t{1} << 26) cases.push_back({"3x3", 1, from, to, 1, {size, size}, {3, 3}});
    }
  }
  for (const int64_t channels : {1, 2, 3, 8, 16, 24}) {
    cases.push_back({"1x1 few", 1, 64, channels, 1, {56, 56}, {1, 1}});
    cases.push_back({"1x1 of few", 1, channels, 64, 1, {56, 56}, {1, 1}});
    cases.push_back({"3x3 few", 1, 32, channels, 1, {40, 40}, {3, 3}});
    cases.push_back({"3x3 of few", 1, channels, 32, 1, {40, 40}, {3, 3}});
  }
  cases.push_back({"7x7 of an image", 1, 3, 64, 1, {224, 224}, {7, 7}, 2});
  cases.push_back({"3x3 of an image", 1, 3, 32, 1, {224, 224}, {3, 3}, 2});
  for (const int64_t size : {7, 14, 28, 56, 112}) {
    for (const int64_t kernel : {3, 5}) {
      for (const int64_t stride : {1, 2})
        cases.push_back({"depthwise", 1, 96, 96, 96, {size, size}, {kernel, kernel}, stride});
    }
  }
  cases.push_back({"depthwise 7x7", 1, 96, 96, 96, {56, 56}, {7, 7}});
  cases.push_back({"depthwise 11x11", 1, 16, 16, 16, {64, 64}, {11, 11}});
  for (const int64_t groups : {2, 4, 8, 16, 32, 64})
    cases.push_back({"grouped", 1, 128, 128, groups, {28, 28}, {3, 3}});
  cases.push_back({"grouped strided", 1, 128, 256, 32, {28, 28}, {3, 3}, 2});
  for (const int64_t channels : {16, 64, 256}) {
    cases.push_back({"strided", 1, channels, channels, 1, {28, 28}, {3, 3}, 2});
    cases.push_back({"strided 1x1", 1, channels, 2 * channels, 1, {28, 28}, {1, 1}, 2});
    cases.push_back({"dilated", 1, channels, channels, 1, {28, 28}, {3, 3}, 1, 2});
  }
  for (const int64_t length : {64, 1000, 16000}) {
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{1, 16}, {16, 16}, {64, 128}, {16, 1}}) {
      cases.push_back({"line", 1, from, to, 1, {length}, {9}});
      cases.push_back({"line as (k, 1)", 1, from, to, 1, {length, 1}, {9, 1}});
      cases.push_back({"line as (1, k)", 1, from, to, 1, {1, length}, {1, 9}});
    }
  }
  cases.push_back({"pitch as (k, 1)", 1, 1024, 128, 1, {191, 1}, {64, 1}});
  cases.push_back({"pitch as a line", 1, 1024, 128, 1, {191}, {64}});
  cases.push_back({"3x3x3", 1, 16, 32, 1, {16, 16, 16}, {3, 3, 3}});
  cases.push_back({"3x3 batch", 8, 64, 64, 1, {28, 28}, {3, 3}});
  cases.push_back({"1x1 batch", 8, 256, 64, 1, {28, 28}, {1, 1}});
  for (const int64_t channels : {1, 4, 16, 64}) {
    cases.push_back({"float64", 1, channels, channels, 1, {28, 28}, {3, 3}, 1, 1, DType::kFloat64});
    cases.push_back({"float64 depthwise", 1, channels, channels, channels, {28, 28}, {3, 3}, 1, 1, DType::kFloat64});
  }
  return cases;
}

double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Operand {
  Tensor tensor;
  OperandShape shape;
};
Operand Make(DType t, const std::vector<int64_t>& sizes, bool channels_last, bool constant) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  if (channels_last) strides[1] = 1, step = sizes[1];
  for (size_t d = sizes.size(); d-- > 0;) {
    if (channels_last && d == 1) continue;
    strides[d] = step;
    step *= sizes[d];
  }
  Operand o{Tensor::EmptyStrided(t, sizes, strides), {true, t, sizes, strides}};
  int64_t i = 0;
  ForEachElement({static_cast<char*>(o.tensor.data()), t, sizes, strides},
                 [&](char* p) { StoreDouble(p, t, static_cast<double>(i++ * 7919 % 199) / 100 - 1); });
  if (constant) o.shape.constant = static_cast<const char*>(o.tensor.data());
  return o;
}

// The least seconds of a call in a batch of several calls, of which the first finds the operands outside of the caches.
double Seconds(const PreparedOp& op, absl::Span<char* const> in, absl::Span<char* const> out) {
  double least = 1e9, total = 0;
  for (int call = 0; call < 4 || total < 5e-4; ++call) {
    const double start = Now();
    if (!op.Run(LibraryContext{}, in, out).ok()) return 1e9;
    const double took = Now() - start;
    least = std::min(least, took);
    total += took;
  }
  return least;
}

// Returns how many times as long as the fastest way the chosen one takes.
absl::StatusOr<double> Measure(const Case& c, bool channels_last, int turns) {
  const int spatial = static_cast<int>(c.size.size());
  std::vector<int64_t> in = {c.batch, c.in_channels}, weight = {c.out_channels, c.in_channels / c.groups},
                       out = {c.batch, c.out_channels}, ints(spatial, c.stride);
  for (int d = 0; d < spatial; ++d) {
    const int64_t reach = (c.kernel[d] - 1) * c.dilation, padding = reach / 2;
    in.push_back(c.size[d]);
    weight.push_back(c.kernel[d]);
    out.push_back((c.size[d] + 2 * padding - reach - 1) / c.stride + 1);
    ints.push_back(padding);
  }
  ints.insert(ints.end(), spatial, c.dilation);
  ints.insert(ints.end(), spatial + 1, 0);
  ints.push_back(c.groups);
  const Operand x = Make(c.dtype, in, channels_last, false), w = Make(c.dtype, weight, false, true),
                y = Make(c.dtype, out, channels_last, false);
  LibraryRequest r;
  r.op = "convolution";
  r.inputs = {x.shape, w.shape};
  r.outputs = {y.shape};
  r.ints = ints;
  PackedWeights packed;
  SMELT_ASSIGN_OR_RETURN(std::vector<MadeConvolution> ways, library_internal::MakeAllConvolutions(r, &packed));
  std::erase_if(ways, [](const MadeConvolution& m) { return absl::string_view(m.name) == "loops"; });
  char* const inputs[] = {static_cast<char*>(x.tensor.data()), static_cast<char*>(w.tensor.data())};
  char* const outputs[] = {static_cast<char*>(y.tensor.data())};
  std::vector<double> least(ways.size(), 1e9);
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i < ways.size(); ++i) least[i] = std::min(least[i], Seconds(*ways[i].op, inputs, outputs));
  }
  const double ratio = least[0] / *std::min_element(least.begin(), least.end());
  std::string line = absl::StrCat(c.kind, " ", c.batch, "x", c.in_channels, "->", c.out_channels, "/", c.groups, " ");
  for (int d = 0; d < spatial; ++d) absl::StrAppend(&line, d > 0 ? "x" : "", c.size[d]);
  absl::StrAppend(&line, " k");
  for (int d = 0; d < spatial; ++d) absl::StrAppend(&line, d > 0 ? "x" : "", c.kernel[d]);
  if (c.stride > 1) absl::StrAppend(&line, " stride ", c.stride);
  if (c.dilation > 1) absl::StrAppend(&line, " dilation ", c.dilation);
  std::printf("| %s | %s | %.2f |", line.c_str(), channels_last ? "last" : "first", ratio);
  for (size_t i = 0; i < ways.size(); ++i) {
    std::printf("%s %s %.1f (%.1f)", i > 0 ? ";" : "", ways[i].name, least[i] * 1e6, ways[i].nanoseconds / 1e3);
  }
  std::printf(" |\n");
  std::fflush(stdout);
  return ratio;
}

absl::Status Run(const std::vector<std::string>& only, int turns) {
  std::printf(
      "| convolution | channels | of the fastest | microseconds (estimate), the chosen way first |\n"
      "|---|---|---|---|\n");
  int shapes = 0, slower = 0;
  double worst = 1;
  for (const Case& c : Cases()) {
    const auto is_kind = [&](const std::string& kind) { return absl::StrContains(c.kind, kind); };
    if (!only.empty() && std::none_of(only.begin(), only.end(), is_kind)) continue;
    for (const bool channels_last : {false, true}) {
      SMELT_ASSIGN_OR_RETURN(const double ratio, Measure(c, channels_last, turns));
      ++shapes;
      slower += ratio > 1.1;
      worst = std::max(worst, ratio);
    }
  }
  std::printf("\n%d shapes, of which %d take more than 1.1 times the fastest way; at most %.2f times\n", shapes, slower,
              worst);
  return absl::OkStatus();
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) {
  std::vector<std::string> only;
  int turns = 5;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (absl::ConsumePrefix(&a, "--only=")) {
      only = absl::StrSplit(a, ',');
    } else if (!absl::ConsumePrefix(&a, "--turns=") || !absl::SimpleAtoi(a, &turns)) {
      std::fprintf(stderr, "convolutions [--only=3x3,depthwise] [--turns=N]\n");
      return 2;
    }
  }
  const absl::Status s = smelt::bench::Run(only, turns);
  if (s.ok()) return 0;
  std::fprintf(stderr, "convolutions: %s\n", std::string(s.message()).c_str());
  return 1;
}
