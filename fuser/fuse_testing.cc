#include "smelt/fuser/fuse_testing.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/fuser/merge_matmuls.h"
#include "smelt/fuser/run_kernels.h"
#include "smelt/fuser/verify_fusion_plan.h"
#include "smelt/pipeline/passes.h"

namespace smelt {
namespace {

Tensor Noise(DType dtype, const std::vector<int64_t>& sizes, int seed) {
  Tensor t = Tensor::Empty(dtype, sizes);
  uint64_t state = 88172645463325252ull + seed;
  for (int64_t i = 0; i < t.NumElements(); ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const float f = static_cast<float>(state % 4001) / 1000 - 2;
    if (dtype == DType::kFloat32) t.data_as<float>()[i] = f;
    if (dtype == DType::kInt64) t.data_as<int64_t>()[i] = static_cast<int64_t>(state % 3);
    if (dtype == DType::kBFloat16) {
      uint32_t bits;
      std::memcpy(&bits, &f, sizeof bits);
      t.data_as<uint16_t>()[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
  return t;
}

// A simple matmul for graphs with library calls.
absl::StatusOr<std::vector<Tensor>> Library(const Graph& g, NodeId n, const std::vector<Tensor>& args) {
  if (g.node(n).op != "aten::mm") return absl::UnimplementedError(g.node(n).op.full());
  const Tensor a = args[0].Clone(), b = args[1].Clone();
  const int64_t rows = a.sizes()[0], inner = a.sizes()[1], columns = b.sizes()[1];
  Tensor out = Tensor::Empty(DType::kFloat32, std::vector<int64_t>{rows, columns});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k)
        sum += a.data_as<float>()[i * inner + k] * b.data_as<float>()[k * columns + j];
      out.data_as<float>()[i * columns + j] = sum;
    }
  }
  return std::vector<Tensor>{out};
}

}  // namespace

std::unique_ptr<Graph> ParseOrFail(const std::string& text) {
  auto g = ParseGraph(text);
  if (!g.ok()) {
    ADD_FAILURE() << g.status() << "\n" << text;
    return std::make_unique<Graph>();
  }
  return *std::move(g);
}

absl::StatusOr<FusionReport> FuseGraph(Graph& g, const FuseOptions& options) {
  PassContext context;
  context.Put(options);
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kFuse}).Run(g, context));
  return std::move(context.Get<FusionReport>());
}

std::vector<std::string> Fused::groups() const {
  std::vector<std::string> out;
  for (NodeId n : graph->AllNodes()) {
    if (graph->node(n).op == "smelt::FusionGroup")
      out.push_back(std::get<std::string>(*graph->node(n).FindAttribute("name")));
  }
  return out;
}

std::string Fused::Edges() const {
  std::string s;
  for (const FusionEdge& e : report.edges)
    absl::StrAppend(&s, e.producer, " -> ", e.consumer, e.fused ? ": fused, " : ": not fused, ", e.reason, "\n");
  return s;
}

std::vector<Tensor> InputsOf(const Graph& g) {
  std::vector<Tensor> out;
  for (ValueId v : g.inputs()) {
    const TensorType& t = g.value(v).type.tensor();
    std::vector<int64_t> sizes;
    for (const Expr& e : *t.sizes) sizes.push_back(*e.Constant());
    out.push_back(Noise(*t.dtype, sizes, static_cast<int>(out.size()) * 1000));
  }
  return out;
}

Fused FuseText(const std::string& text, float tolerance, bool few_launches) {
  Fused out;
  out.graph = ParseOrFail(text);
  const std::vector<Tensor> inputs = InputsOf(*out.graph);
  RunKernelsOptions run;
  run.library = Library;
  auto before = RunKernels(*out.graph, inputs, run);
  EXPECT_TRUE(before.ok()) << before.status();
  // Once more without the alias database, which must not prevent fusion.
  std::unique_ptr<Graph> alone = out.graph->Clone();
  auto alone_report = FuseGraph(*alone, {.few_launches = few_launches});
  EXPECT_TRUE(alone_report.ok()) << alone_report.status();
  const int late_reads = CountLateReads(*out.graph);
  const std::unique_ptr<AliasDb> alias = AliasDb::Build(*out.graph);
  PassContext context;
  FuseOptions& options = context.Get<FuseOptions>();
  options.explain = true;
  options.few_launches = few_launches;
  options.alias_db = alias.get();
  const absl::Status fused = PassesOf({PassGroup::kFuse}).Run(*out.graph, context);
  EXPECT_TRUE(fused.ok()) << fused;
  out.report = context.Get<FusionReport>();
  out.merged_matmuls = context.Get<MergedMatmuls>().count;
  if (fused.ok() && alone_report.ok()) {
    EXPECT_EQ(out.report.groups, alone_report->groups);
    EXPECT_EQ(out.report.refused_groups, 0);
  }
  EXPECT_TRUE(alias->Verify().ok()) << alias->Verify() << PrintGraph(*out.graph);
  EXPECT_TRUE(VerifyGraph(*out.graph).ok()) << VerifyGraph(*out.graph) << PrintGraph(*out.graph);
  EXPECT_TRUE(VerifyFusionPlan(*out.graph, late_reads).ok()) << VerifyFusionPlan(*out.graph, late_reads);
  auto after = RunKernels(*out.graph, inputs, run);
  EXPECT_TRUE(after.ok()) << after.status() << PrintGraph(*out.graph);
  if (!before.ok() || !after.ok()) return out;
  out.specs = after->specs;
  EXPECT_EQ(before->outputs.size(), after->outputs.size());
  for (size_t i = 0; i < before->outputs.size(); ++i) {
    const Tensor a = before->outputs[i].Clone(), b = after->outputs[i].Clone();
    EXPECT_EQ(a.geometry().sizes, b.geometry().sizes);
    if (tolerance == 0) {
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.NumElements() * ItemSize(a.dtype())), 0) << "output " << i << "\n"
                                                                                           << PrintGraph(*out.graph);
    } else {
      for (int64_t k = 0; k < a.NumElements(); ++k)
        EXPECT_NEAR(a.data_as<float>()[k], b.data_as<float>()[k], tolerance);
    }
  }
  return out;
}

}  // namespace smelt
