#include "smelt/fuser/expand_composites.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/read_numbers.h"
#include "smelt/core/op/traits.h"
#include "smelt/fuser/expand_copies.h"
#include "smelt/fuser/expand_matmuls.h"
#include "smelt/fuser/expand_views.h"
#include "smelt/fuser/expand_writes.h"
#include "smelt/fuser/expansion.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/quantized_weights.h"
#include "smelt/fuser/written_attention.h"

namespace smelt {

namespace {

constexpr int kMaxSteps = 100000;  // from one node: a decomposition that does not end is a bug

bool HasEffect(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.blocks.empty()) {
    // Control flow without effects inside is as dead as its results.
    for (BlockId b : node.blocks) {
      for (NodeId inner : g.Nodes(b)) {
        if (HasEffect(g, inner)) return true;
      }
    }
    return node.op == op::kSmeltWhileLoop || node.op == op::kPrimLoop;  // it may not end
  }
  const std::string& name = node.op.name();
  if (absl::StartsWith(name, op::kSmeltAssertPrefix)) return true;
  if (absl::StartsWith(name, op::kPrimNamespace)) return name == op::kPrimRaiseException || name == op::kPrimPrint;
  if (absl::StartsWith(name, op::kSmeltNamespace)) return false;
  if (absl::StrContains(name, "assert")) return true;
  switch (GetOpInfo(node.op).kind) {
    case OpKind::kRandom:
    case OpKind::kInplace:
    case OpKind::kOut:
    case OpKind::kInplaceView:
    case OpKind::kUnknown:
      return true;
    default:
      return false;
  }
}

void EraseDeadIn(Graph& g, BlockId b, const absl::flat_hash_set<NodeId>& kept) {
  std::vector<NodeId> nodes = g.Nodes(b);
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if (!g.IsLive(*it)) continue;
    bool used = false;
    for (ValueId v : g.node(*it).outputs) used = used || !g.value(v).uses.empty();
    if (!used && !HasEffect(g, *it) && !kept.contains(*it)) {
      g.Erase(*it);
      continue;
    }
    const std::vector<BlockId> blocks(g.node(*it).blocks.begin(), g.node(*it).blocks.end());
    for (BlockId inner : blocks) EraseDeadIn(g, inner, kept);
  }
}

// Expands in one pass over the nodes, and in a second one if there are cats.
class Expander {
 public:
  explicit Expander(Graph& g) : g_(g), edit_(g) {}

  absl::Status Run();

 private:
  struct Places {
    int count = 0;
    std::vector<std::string> sources;  // the first few
    std::string reason;
  };

  absl::Status ExpandBlock(BlockId b);

  absl::Status At(NodeId n, const absl::Status& s) const;
  void AddUnsupported(NodeId n, absl::string_view reason);

  // Kernels have no complex numbers: each becomes two real ones.
  absl::StatusOr<bool> ExpandComplex(NodeId n);
  // Runs Decompose or DecomposeComplex. If a result is now a view, it is copied for users that treat it as a whole
  // memory: a fresh result's memory begins with its first element, a view's memory with its storage.
  absl::StatusOr<bool> TakeApart(NodeId n, absl::StatusOr<bool> (*decompose)(Graph&, NodeId));
  // Returns whether it is a result of a node of this graph and not of an operand, or a view of each of its bytes.
  bool ShowsAllOfFreshMemory(ValueId v, absl::Span<const ValueId> operands) const;
  // Returns the users that treat it as a memory's contents: those that name regions of it, and returns.
  std::vector<Use> UsesAsMemory(ValueId v) const;

  absl::StatusOr<ExpansionStep> ExpandNode(NodeId n);

  Graph& g_;
  Expansion edit_;
  std::map<std::string, Places> unsupported_;
  bool has_cats_ = false, readers_known_ = false;
};

absl::Status Expander::Run() {
  SMELT_RETURN_IF_ERROR(UseQuantizedWeights(g_));
  SMELT_RETURN_IF_ERROR(UseAttention(g_));
  SMELT_RETURN_IF_ERROR(ExpandBlock(g_.top()));
  if (has_cats_) {
    // From here on readers do not change.
    readers_known_ = true;
    unsupported_.clear();
    SMELT_RETURN_IF_ERROR(ExpandBlock(g_.top()));
  }
  if (!unsupported_.empty()) {
    std::vector<std::string> lines;
    for (const auto& [op, places] : unsupported_) {
      std::string line = absl::StrCat(op, " (", places.count, places.count == 1 ? " time" : " times");
      if (!places.sources.empty()) absl::StrAppend(&line, ": ", absl::StrJoin(places.sources, ", "));
      if (places.count > static_cast<int>(places.sources.size()) && !places.sources.empty())
        absl::StrAppend(&line, ", ...");
      absl::StrAppend(&line, ")");
      if (!places.reason.empty()) absl::StrAppend(&line, ": ", places.reason);
      lines.push_back(std::move(line));
    }
    return absl::UnimplementedError(absl::StrCat("unsupported operators: ", absl::StrJoin(lines, "; ")));
  }
  for (NodeId n : g_.AllNodes()) {
    if (g_.node(n).op == op::kSmeltView) LookThroughCopy(edit_, n);
  }
  EraseDeadNodes(g_);
  return absl::OkStatus();
}

absl::Status Expander::ExpandBlock(BlockId b) {
  NodeId n = g_.block(b).first;
  int steps = 0;
  while (n.valid()) {
    const NodeId prev = g_.node(n).prev;
    edit_.set_source(g_.node(n).source);
    absl::StatusOr<ExpansionStep> step = ExpandNode(n);
    if (!step.ok()) {
      if (!absl::IsUnimplemented(step.status())) return At(n, step.status());
      AddUnsupported(n, step.status().message());
      step = ExpansionStep::kKeep;
    }
    if (*step == ExpansionStep::kChanged) {
      if (++steps > kMaxSteps) return absl::InternalError("the expansion of an operator does not end");
      // The nodes that replaced this one stand between `prev` and the node that followed.
      n = prev.valid() && g_.IsLive(prev) ? g_.node(prev).next : g_.block(b).first;
      continue;
    }
    if (*step == ExpansionStep::kUnsupported) AddUnsupported(n, "");
    steps = 0;
    const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
    for (BlockId inner : blocks) SMELT_RETURN_IF_ERROR(ExpandBlock(inner));
    n = g_.node(n).next;
  }
  return absl::OkStatus();
}

absl::Status Expander::At(NodeId n, const absl::Status& s) const {
  if (!g_.IsLive(n)) return s;
  return Annotate(s, OperatorAndSource(g_.node(n)));
}

void Expander::AddUnsupported(NodeId n, absl::string_view reason) {
  if (!g_.IsLive(n)) return;
  const Node& node = g_.node(n);
  Places& p = unsupported_[node.op.full()];
  ++p.count;
  if (p.reason.empty()) p.reason = std::string(reason);
  if (node.source != nullptr && p.sources.size() < 5) {
    const std::string s = node.source->ToString();
    if (!s.empty() && std::find(p.sources.begin(), p.sources.end(), s) == p.sources.end()) p.sources.push_back(s);
  }
}

std::vector<Use> Expander::UsesAsMemory(ValueId v) const {
  std::vector<Use> uses;
  for (const Use& u : g_.value(v).uses) {
    if (g_.IsReturn(u.user)) {
      uses.push_back(u);
      continue;
    }
    const OpName op = g_.node(u.user).op;
    if (u.index == 0 && (op == op::kSmeltView || op == op::kSmeltWriteRegion)) uses.push_back(u);
  }
  return uses;
}

bool Expander::ShowsAllOfFreshMemory(ValueId v, absl::Span<const ValueId> operands) const {
  ValueId base = v;
  for (NodeId def = g_.value(v).def;; def = g_.value(base).def) {
    if (g_.IsParam(def)) return false;
    const OpName op = g_.node(def).op;
    // A value that is written to an argument is in the argument.
    const bool writes = op == op::kSmeltWriteRegion;
    if (!writes && op != op::kSmeltView && GetOpInfo(op).kind != OpKind::kView) break;
    // Elements that a view repeats could compensate for those that it leaves out.
    if (op.name() == op::kExpand || op.name() == op::kAsStrided || op.name() == op::kUnfold) return false;
    base = g_.node(def).inputs[0];
  }
  if (std::find(operands.begin(), operands.end(), base) != operands.end()) return false;
  const auto bytes = [&](ValueId of) {
    Expr product = ItemSize(*edit_.T(of).dtype);
    for (const Expr& size : *edit_.T(of).sizes) product = product * size;
    return product;
  };
  return edit_.T(base).IsComplete() && edit_.T(v).IsComplete() && bytes(v) == bytes(base);
}

absl::StatusOr<bool> Expander::TakeApart(NodeId n, absl::StatusOr<bool> (*decompose)(Graph&, NodeId)) {
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  const std::vector<ValueId> operands(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  std::vector<std::pair<Use, std::vector<Expr>>> memories;
  for (ValueId v : outputs) {
    if (!g_.value(v).type.IsTensor() || !g_.value(v).type.tensor().IsComplete()) continue;
    for (const Use& use : UsesAsMemory(v)) memories.push_back({use, *edit_.T(v).strides});
  }
  SMELT_ASSIGN_OR_RETURN(const bool changed, decompose(g_, n));
  for (const auto& [use, strides] : memories) {
    if (!changed || !g_.IsLive(use.user)) continue;
    const ValueId v = g_.node(use.user).inputs[use.index];
    const NodeId def = g_.value(v).def;
    const bool fresh = !g_.IsParam(def) && g_.node(def).op != op::kSmeltView &&
                       GetOpInfo(g_.node(def).op).kind != OpKind::kView &&
                       std::find(operands.begin(), operands.end(), v) == operands.end();
    // A part of a tensor lies in it: assertions about both, and writes to one, concern one memory.
    const bool lies_so = g_.IsReturn(use.user) || (edit_.T(v).strides && *edit_.T(v).strides == strides);
    if (fresh || (lies_so && ShowsAllOfFreshMemory(v, operands))) continue;
    g_.SetInput(use.user, use.index, edit_.Copied(use.user, v, strides));
  }
  return changed;
}

absl::StatusOr<bool> Expander::ExpandComplex(NodeId n) {
  const std::string& name = g_.node(n).op.name();
  if (absl::StartsWith(name, op::kAtenNamespace) || name == "prims::convert_element_type") {
    return GetOpInfo(g_.node(n).op).kind == OpKind::kView ? false : TakeApart(n, DecomposeComplex);
  }
  const bool region = name == op::kSmeltWriteRegion;
  if (!region && name != op::kSmeltMaterialize) return false;
  const ValueId value = g_.node(n).inputs[region ? 1 : 0];
  if (!IsComplex(*edit_.T(value).dtype)) return false;
  Emit e(g_, n);
  const ValueId real = e.Op(op::kViewAsReal, {value});
  if (!e.ok()) return e.status();
  auto doubled = [](std::vector<Expr> v, const Expr& last) {
    for (Expr& x : v) x = x * 2;
    v.push_back(last);
    return v;
  };
  std::vector<Expr> strides = doubled(std::get<std::vector<Expr>>(*g_.node(n).FindAttribute("strides")), 1);
  if (region) {
    SymbolicGeometry where = RegionGeometry(g_.node(n));
    where.sizes.push_back(2);
    g_.SetAttribute(n, "sizes", where.sizes);
    g_.SetAttribute(n, "strides", strides);
    g_.SetAttribute(n, "offset", where.offset * 2);
    g_.SetAttribute(n, "dtype", ScalarTypeOf(*e.TypeOf(real).dtype));
    g_.SetInput(n, 1, real);
    return true;
  }
  const TensorType& t = e.TypeOf(real);
  NodeId copy =
      g_.InsertBefore(n, OpName::Get(op::kSmeltMaterialize), {real}, {Type::Tensor(*t.dtype, *t.sizes, strides)});
  g_.SetAttribute(copy, "strides", strides);
  g_.SetSource(copy, g_.node(n).source);
  const ValueId out = e.Op(op::kViewAsComplex, {g_.node(copy).outputs[0]});
  if (!e.ok()) return e.status();
  edit_.ReplaceWith(n, out);
  return true;
}

absl::StatusOr<ExpansionStep> Expander::ExpandNode(NodeId n) {
  const OpName op = g_.node(n).op;
  const std::string& name = op.name();
  if (name == op::kSmeltView) return ShortenView(edit_, n);
  if (HasComplexNumbers(g_, n)) {
    SMELT_ASSIGN_OR_RETURN(bool changed, ExpandComplex(n));
    if (changed) return ExpansionStep::kChanged;
  }
  if (name == op::kPrimListUnpack) {
    std::optional<std::vector<ValueId>> elements = GetListElements(g_, g_.node(n).inputs[0]);
    if (!elements || elements->size() != g_.node(n).outputs.size()) return ExpansionStep::kKeep;
    for (size_t i = 0; i < elements->size(); ++i) g_.ReplaceAllUses(g_.node(n).outputs[i], (*elements)[i]);
    g_.Erase(n);
    return ExpansionStep::kChanged;
  }
  if (absl::StartsWith(name, op::kPrimNamespace) || absl::StartsWith(name, op::kSmeltNamespace))
    return ExpansionStep::kKeep;
  if (name == op::kPrivateAssertAsync || name == op::kPrivateAssertScalar) return ExpansionStep::kKeep;
  const OpTraits& traits = GetOpTraits(op);
  if (traits.family == OpFamily::kCat || traits.family == OpFamily::kStack) {
    has_cats_ = true;
    return readers_known_ && !IsReadByKernels(g_, n) ? ExpandCat(edit_, n) : ExpansionStep::kKeep;
  }
  if (traits.family == OpFamily::kCopy) return ExpandCopy(edit_, n);
  if (traits.family == OpFamily::kViewScatter) return ExpandViewScatter(edit_, n);
  if (traits.family == OpFamily::kRoll) {
    SMELT_ASSIGN_OR_RETURN(bool changed, ExpandFlatRoll(edit_, n));
    if (changed) return ExpansionStep::kChanged;
  }
  if (name == op::kFill || name == op::kZero) return ExpandFill(edit_, n);
  if (traits.family == OpFamily::kIndexedWrite) return ExpandIndexedWrite(edit_, n);
  if (traits.library == LibraryCall::kMatmulWithBias) return ExpandAddMatmul(edit_, n);
  if (name == op::kMm || name == op::kBmm) {
    SMELT_ASSIGN_OR_RETURN(bool changed, ExpandThinMatmul(edit_, n));
    if (changed) return ExpansionStep::kChanged;
  }
  const OpInfo& info = GetOpInfo(op);
  if (info.kind == OpKind::kView) return ExpandView(edit_, n);
  // Kernels could compute these from four places at once, but for some there is a faster way.
  if (name == op::kUpsampleBilinear2d) {
    SMELT_ASSIGN_OR_RETURN(bool changed, TakeApart(n, Decompose));
    if (changed) return ExpansionStep::kChanged;
  }
  if (IsKernelNode(g_, n)) return ExpansionStep::kKeep;
  if (info.decomposes) {
    SMELT_ASSIGN_OR_RETURN(bool changed, TakeApart(n, Decompose));
    if (changed) return ExpansionStep::kChanged;
  }
  switch (info.kind) {
    case OpKind::kLibrary:
    case OpKind::kMovement:
    case OpKind::kControl:
    case OpKind::kRandom:
    case OpKind::kScalar:
    case OpKind::kContainer:
      return ExpansionStep::kKeep;
    case OpKind::kOther:
      if (name == op::kPrivateLocalScalarDense || name == op::kItem) return ExpansionStep::kKeep;
      return ExpansionStep::kUnsupported;
    default:
      break;
  }
  bool numbers = !g_.node(n).outputs.empty();
  for (ValueId v : g_.node(n).outputs)
    numbers = numbers && !g_.value(v).type.IsTensor() && g_.value(v).expr.has_value();
  return numbers ? ExpansionStep::kKeep : ExpansionStep::kUnsupported;
}

}  // namespace

void EraseDeadNodes(Graph& g) { EraseDeadIn(g, g.top(), ReadersOfSizes(g)); }

absl::Status ExpandComposites(Graph& g) { return Expander(g).Run(); }

Pass ExpandCompositesPass() {
  return {.name = "expand-composites",
          .description = "each operator becomes kernels and library calls",
          .prerequisites = {"infer-types"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            SMELT_RETURN_IF_ERROR(ExpandComposites(g));
            return edits.count() > 0;
          }};
}

}  // namespace smelt
