#include "smelt/script/flatten_outputs.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

// True when nothing changes the list, under this name or another.
bool KeepsItsElements(const Graph& g, ValueId list) {
  const auto& uses = g.value(list).uses;
  return std::none_of(uses.begin(), uses.end(), [&](const Use& use) {
    const bool leaves = g.IsReturn(use.user) && use.user != g.block(g.top()).return_node;
    return leaves || ChangesFirstList(g.node(use.user).op);
  });
}

// The elements of a list of a known number; those that an operator makes are unpacked.
absl::StatusOr<std::vector<ValueId>> ElementsOf(Graph& g, ValueId list) {
  if (!KeepsItsElements(g, list)) return std::vector<ValueId>();
  if (const auto elements = GetListElements(g, list)) return *elements;
  const NodeId def = g.value(list).def;
  if (g.IsParam(def)) return std::vector<ValueId>();
  SMELT_ASSIGN_OR_RETURN(const OpCall call, OpCall::Of(g, def));
  const auto inferred = InferCall(call, g.symbols);
  if (!inferred.ok() || inferred->size() != 1 || (*inferred)[0].elements.empty()) return std::vector<ValueId>();
  const NodeId unpack =
      g.InsertBefore(g.block(g.top()).return_node, OpName::Get(op::kPrimListUnpack), {list}, (*inferred)[0].elements);
  g.SetSource(unpack, g.node(def).source);
  return std::vector<ValueId>(g.node(unpack).outputs.begin(), g.node(unpack).outputs.end());
}

// Puts `flat` in the place of all results.
void SetOutputs(Graph& g, const std::vector<ValueId>& flat, const std::vector<std::string>& names) {
  while (!g.outputs().empty()) g.EraseResult(g.top(), static_cast<int>(g.outputs().size()) - 1);
  g.output_names.clear();
  for (size_t k = 0; k < flat.size(); ++k) g.AddOutput(flat[k], names[k]);
}

}  // namespace

absl::Status ReturnElements(Graph& g) {
  std::vector<ValueId> flat;
  std::vector<std::string> names;
  bool any = false;
  const std::function<absl::Status(ValueId, const std::string&)> add = [&](ValueId v,
                                                                           const std::string& name) -> absl::Status {
    const NodeId def = g.value(v).def;
    std::vector<ValueId> elements;
    if (g.value(v).type.kind() == TypeKind::kList) {
      SMELT_ASSIGN_OR_RETURN(elements, ElementsOf(g, v));
      any = any || !elements.empty();
    } else if (!g.IsParam(def) && g.node(def).op == op::kPrimTupleConstruct) {
      elements.assign(g.node(def).inputs.begin(), g.node(def).inputs.end());
    }
    for (ValueId e : elements) SMELT_RETURN_IF_ERROR(add(e, ""));
    if (!elements.empty()) return absl::OkStatus();
    flat.push_back(v);
    names.push_back(name);
    return absl::OkStatus();
  };
  const std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  for (size_t k = 0; k < outputs.size(); ++k)
    SMELT_RETURN_IF_ERROR(add(outputs[k], k < g.output_names.size() ? g.output_names[k] : ""));
  if (!any) return absl::OkStatus();
  SetOutputs(g, flat, names);
  return absl::OkStatus();
}

std::unique_ptr<Graph> FlattenOutputs(const Graph& imported) {
  const bool any = std::any_of(imported.outputs().begin(), imported.outputs().end(), [&](ValueId v) {
    const NodeId def = imported.value(v).def;
    return !imported.IsParam(def) && imported.node(def).op == op::kPrimTupleConstruct;
  });
  if (!any) return nullptr;
  std::unique_ptr<Graph> copy = imported.Clone();
  Graph& g = *copy;
  std::vector<ValueId> flat;
  std::vector<std::string> names;
  auto add = [&](auto& self, ValueId v, const std::string& name) -> void {
    const NodeId def = g.value(v).def;
    if (g.IsParam(def) || g.node(def).op != op::kPrimTupleConstruct) {
      flat.push_back(v);
      names.push_back(name);
      return;
    }
    for (ValueId e : std::vector<ValueId>(g.node(def).inputs.begin(), g.node(def).inputs.end())) self(self, e, "");
  };
  for (size_t k = 0; k < g.outputs().size(); ++k) {
    add(add, g.outputs()[k], k < g.output_names.size() ? g.output_names[k] : "");
  }
  SetOutputs(g, flat, names);
  return copy;
}

Pass ReturnElementsPass() {
  return {.name = "return-elements",
          .description = "results that are lists or tuples become their elements",
          .prerequisites = {"infer-types"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            SMELT_RETURN_IF_ERROR(ReturnElements(g));
            return edits.count() > 0;
          }};
}

}  // namespace smelt
