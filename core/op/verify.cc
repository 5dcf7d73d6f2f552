#include "smelt/core/op/verify.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"

namespace smelt {

namespace {

constexpr int kMaxDepth = 256;

absl::Status CheckControlFlow(const Graph& g, const Node& node, const auto& fail) {
  static const OpName kIf = OpName::Get("prim::If"), kLoop = OpName::Get("prim::Loop"),
                      kCond = OpName::Get("smelt::cond"), kWhile = OpName::Get("smelt::while_loop");
  auto results = [&](size_t b) { return g.results(node.blocks[b]).size(); };
  auto params = [&](size_t b) { return g.params(node.blocks[b]).size(); };
  if (node.op == kIf || node.op == kCond) {
    if (node.blocks.size() != 2) return fail("expected 2 blocks, found ", node.blocks.size());
    size_t carried = node.op == kIf ? 0 : node.inputs.size() - 1;
    for (size_t b = 0; b < 2; ++b) {
      if (params(b) != carried) return fail("expected ", carried, " parameters of block ", b, ", found ", params(b));
      if (results(b) != node.outputs.size()) {
        return fail("expected ", node.outputs.size(), " results of block ", b, ", found ", results(b));
      }
    }
  } else if (node.op == kLoop) {
    if (node.blocks.size() != 1) return fail("expected 1 block, found ", node.blocks.size());
    size_t carried = node.inputs.size() - 2;
    if (node.outputs.size() != carried || params(0) != carried + 1 || results(0) != carried + 1) {
      return fail("expected ", carried, " outputs and, of its block, ", carried + 1, " parameters and results; found ",
                  node.outputs.size(), ", ", params(0), " and ", results(0));
    }
  } else if (node.op == kWhile) {
    if (node.blocks.size() != 2) return fail("expected 2 blocks, found ", node.blocks.size());
    if (params(0) != node.inputs.size() || params(1) != node.inputs.size()) {
      return fail("expected ", node.inputs.size(), " parameters of its blocks, found ", params(0), " and ", params(1));
    }
    if (results(0) != 1) return fail("expected 1 result of its condition, found ", results(0));
    if (results(1) != node.outputs.size())
      return fail("expected ", node.outputs.size(), " results of its body, found ", results(1));
  } else if (!node.blocks.empty() && !absl::StartsWith(node.op.name(), op::kPrimNamespace)) {
    return fail("expected no blocks, found ", node.blocks.size());
  }
  return absl::OkStatus();
}

absl::Status Verify(const Graph& g, const VerifySchemasOptions& options, int depth) {
  if (depth > kMaxDepth)
    return absl::InvalidArgumentError(absl::StrCat("expected subgraphs nested at most ", kMaxDepth, " deep"));
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    auto fail = [&](auto&&... what) {
      std::string where = node.op.full();
      if (!node.outputs.empty()) where = absl::StrCat("%", g.value(node.outputs[0]).name, " = ", where);
      if (node.source != nullptr && !node.source->file.empty())
        absl::StrAppend(&where, " (", node.source->ToString(), ")");
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", what...));
    };
    for (const auto& [name, attribute] : node.attributes) {
      const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute);
      if (subgraph == nullptr || *subgraph == nullptr) continue;
      absl::Status status = Verify(**subgraph, options, depth + 1);
      if (!status.ok()) return status;
    }
    const FunctionSchema* schema = FindSchema(node.op);
    if (schema == nullptr) {
      if (options.require_schema) return fail("there is no such operator");
      continue;
    }
    size_t count = schema->arguments.size();
    if (node.inputs.size() < count || (node.inputs.size() > count && !schema->is_vararg)) {
      return fail("expected ", schema->is_vararg ? "at least " : "", count, " inputs, found ", node.inputs.size(),
                  "; its schema is ", schema->ToString());
    }
    if (!schema->is_varret && node.outputs.size() != schema->returns.size()) {
      return fail("expected ", schema->returns.size(), " outputs, found ", node.outputs.size(), "; its schema is ",
                  schema->ToString());
    }
    if (options.check_types) {
      std::vector<Type> types;
      for (ValueId v : node.inputs) types.push_back(g.value(v).type);
      if (!TakesTypes(*schema, types)) {
        std::string found;
        for (const Type& t : types) absl::StrAppend(&found, found.empty() ? "" : ", ", t.ToString());
        return fail("inputs of types (", found, ") do not fit its schema, ", schema->ToString());
      }
    }
    absl::Status status = CheckControlFlow(g, node, fail);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifySchemas(const Graph& g, const VerifySchemasOptions& options) { return Verify(g, options, 0); }

}  // namespace smelt
