#include "smelt/pipeline/eager_plan.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/branch.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/pipeline/eager_call_table.h"
#include "smelt/pipeline/eager_computing.h"
#include "smelt/pipeline/eager_custom.h"
#include "smelt/pipeline/eager_geometry.h"
#include "smelt/pipeline/eager_group_writer.h"
#include "smelt/pipeline/eager_groups.h"
#include "smelt/pipeline/eager_numbers.h"
#include "smelt/pipeline/eager_program_writer.h"
#include "smelt/pipeline/expected_types.h"
#include "smelt/schema/eager_ops.h"

namespace smelt {
namespace {

// Returns whether an operator of the block changes the dims of a tensor that there is already.
bool ChangesDims(const Graph& g, BlockId b) {
  for (NodeId n : g.Nodes(b)) {
    const Node& node = g.node(n);
    if (GetOpInfo(node.op).kind == OpKind::kInplaceView || GetOpTraits(node.op).resizes) return true;
    for (BlockId inner : node.blocks) {
      if (ChangesDims(g, inner)) return true;
    }
  }
  return false;
}

// Writes the program node by node. What an operator becomes is the job of the parts.
class EagerBuilder {
 public:
  // Without `formed` there are no groups.
  EagerBuilder(const Graph& g, std::optional<EagerGroups> formed, BundleBuilder& bundle)
      : g_(g),
        formed_(std::move(formed)),
        w_(g, bundle),
        calls_(g, bundle, w_.program()),
        numbers_(w_),
        geometry_(w_, calls_),
        custom_(w_),
        computing_(w_, calls_, ChangesDims(g, g.top())) {
    if (!formed_) return;
    group_writer_.emplace(w_, calls_, computing_, formed_->bases);
    for (const EagerGroup& group : formed_->groups) group_at_.emplace(group.front(), &group);
  }

  absl::StatusOr<std::unique_ptr<fb::EagerProgramT>> Run() {
    w_.program().states.assign(g_.weights.size(), -1);
    for (ValueId v : g_.inputs()) custom_.NoteSymbols(v);
    for (size_t i = 0; i < g_.inputs().size(); ++i) {
      const InputInfo& info = g_.input_infos[i];
      if (info.kind == InputInfo::Kind::kUser) {
        w_.program().args.push_back(w_.Number(g_.inputs()[i]));
      } else if (w_.program().states[info.weight] >= 0) {
        w_.Share(g_.inputs()[i], w_.program().states[info.weight]);
      } else {
        w_.program().states[info.weight] = w_.Number(g_.inputs()[i]);
      }
    }
    w_.AddBlock();
    SMELT_RETURN_IF_ERROR(Block(g_.top(), 0));
    for (ValueId v : g_.outputs()) {
      if (g_.value(v).type.kind() == TypeKind::kList) return absl::UnimplementedError("a list as an output");
      w_.program().outputs.push_back(w_.Number(v));
    }
    return w_.Finish();
  }

 private:
  absl::Status Block(BlockId b, int index) {
    const int outer = w_.block();
    w_.SetBlock(index);
    for (ValueId v : g_.params(b)) {
      if (b != g_.top()) w_.program().blocks[index]->params.push_back(w_.Number(v));
    }
    const EagerGroup* group = nullptr;  // whose nodes come now
    std::vector<size_t> begins;         // of its nodes' instructions
    for (NodeId n : g_.Nodes(b)) {
      if (const auto it = group_at_.find(n); it != group_at_.end()) {
        group = it->second;
        begins.clear();
      }
      if (group != nullptr) begins.push_back(w_.program().blocks[index]->instrs.size());
      absl::Status s = EmitNode(n);
      for (ValueId v : g_.node(n).outputs) custom_.NoteSymbols(v);
      if (!s.ok()) {
        const Node& node = g_.node(n);
        if (!node.blocks.empty()) return s;
        return Annotate(s, OperatorAndSource(node));
      }
      if (group != nullptr && n == group->back()) {
        begins.push_back(w_.program().blocks[index]->instrs.size());
        group_writer_->Emit(*group, begins);
        group = nullptr;
      }
    }
    if (b != g_.top()) {
      for (ValueId v : g_.results(b)) w_.program().blocks[index]->results.push_back(w_.Number(v));
    }
    w_.SetBlock(outer);
    return absl::OkStatus();
  }
  absl::StatusOr<int> Inner(BlockId b) {
    const int index = w_.AddBlock();
    SMELT_RETURN_IF_ERROR(Block(b, index));
    return index;
  }

  absl::Status EmitNode(NodeId n) {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    const OpInfo& info = GetOpInfo(node.op);
    if (name == op::kPrimConstant) return numbers_.EmitConstant(n);
    if (node.op.IsDeclared()) return custom_.EmitCustom(n);
    if (name == op::kPrimDevice || name == op::kPrimLayout) {
      w_.Emit(fb::EagerKind::None, n).outputs = {w_.Number(node.outputs[0])};
      return absl::OkStatus();
    }
    if (IsBranch(node.op)) return EmitControl(fb::EagerKind::If, n);
    if (name == op::kPrimLoop) return EmitControl(fb::EagerKind::Loop, n);
    if (name == op::kSmeltWhileLoop) return EmitControl(fb::EagerKind::While, n);
    if (!node.blocks.empty()) return absl::UnimplementedError("control flow of this kind");
    if (name == op::kSmeltSize) return numbers_.EmitSize(n);
    if (name == op::kCopyInPlace) return geometry_.EmitCopy(n);
    const OpTraits& traits = GetOpTraits(node.op);
    if (traits.resizes) return geometry_.EmitGeometry(n);
    for (ValueId v : node.inputs) {
      const bool complex = DTypeOf(g_, v) && IsComplex(*DTypeOf(g_, v));
      if (complex && traits.conjugates_lazily) return absl::UnimplementedError("lazy conjugation of complex tensors");
    }
    if (name == op::kSmeltAssertType) return numbers_.EmitTypeCheck(n);
    if (name == op::kSmeltAssertNoOverlap) return numbers_.EmitNumber(n);
    if (name == op::kPrimDictConstruct) return numbers_.EmitNumber(n, "dict::construct");
    if (!node.inputs.empty() && g_.value(node.inputs[0]).type.kind() == TypeKind::kDict) {
      const std::string op = absl::StrCat("dict::", absl::StripPrefix(name, op::kAtenNamespace));
      return IsEagerNumberOp(op) ? numbers_.EmitNumber(n, op) : absl::UnimplementedError("an operator on dictionaries");
    }
    if (info.kind == OpKind::kInplaceView) {
      if (!IsEagerViewOp(info.functional.full())) return absl::UnimplementedError("a change of geometry of this kind");
      fb::EagerInstrT& i = w_.Emit(fb::EagerKind::ViewInPlace, n);
      i.op = info.functional.full();
      w_.Inputs(i, n);
      w_.Same(n, 0, node.inputs[0]);
      return absl::OkStatus();
    }
    if (IsEagerViewOp(node.op.full())) {
      fb::EagerInstrT& i = w_.Emit(fb::EagerKind::View, n);
      i.op = node.op.full();
      w_.Inputs(i, n);
      w_.Outputs(i, n);
      return absl::OkStatus();
    }
    if (info.kind == OpKind::kView) return absl::UnimplementedError("a view of this kind");
    if (traits.family == OpFamily::kConversion) return geometry_.EmitConversion(n);
    const bool numbers = info.kind == OpKind::kScalar || info.kind == OpKind::kContainer ||
                         absl::StartsWith(name, op::kPrimNamespace) ||
                         absl::StartsWith(name, op::kPrivateAssertPrefix) || absl::StartsWith(name, op::kSymPrefix);
    if (numbers && IsEagerNumberOp(name)) return numbers_.EmitNumber(n);
    bool all_known = !node.outputs.empty();
    for (ValueId v : node.outputs)
      all_known = all_known && g_.value(v).expr.has_value() && !g_.value(v).expr->IsPoison();
    if (all_known) return numbers_.EmitSize(n);
    if (numbers) return absl::UnimplementedError("an operator on numbers or lists of this kind");
    const FunctionSchema* schema = FindSchema(node.op);
    if (schema == nullptr) return absl::UnimplementedError("no such operator is known");
    if (schema->IsMutable()) return computing_.EmitWrite(n, *schema);
    // If the list grows, or its tensors do, the runtime joins the elements that it finds.
    if ((name == op::kCat || name == op::kStack) && JoinsWhatThereIs(node.inputs[0])) {
      fb::EagerInstrT& i = w_.Emit(fb::EagerKind::View, n);
      i.op = name;
      w_.Inputs(i, n);
      w_.Outputs(i, n);
      return absl::OkStatus();
    }
    return computing_.EmitPure(n);
  }

  bool JoinsWhatThereIs(ValueId list) const {
    const auto elements = GetListElements(g_, list);
    if (!elements) return true;
    bool unknown = false;
    for (ValueId v : *elements) {
      if (!DTypeOf(g_, v) || DTypeOf(g_, v) != DTypeOf(g_, elements->front())) return false;
      unknown = unknown || !g_.value(v).type.tensor().sizes;
    }
    return unknown;
  }

  absl::Status EmitControl(fb::EagerKind kind, NodeId n) {
    auto i = w_.New(kind, n);
    w_.Inputs(*i, n);
    for (BlockId b : std::vector<BlockId>(g_.node(n).blocks.begin(), g_.node(n).blocks.end())) {
      SMELT_ASSIGN_OR_RETURN(int inner, Inner(b));
      i->blocks.push_back(inner);
    }
    w_.Outputs(*i, n);
    w_.Add(std::move(i));
    return absl::OkStatus();
  }

  const Graph& g_;
  const std::optional<EagerGroups> formed_;
  absl::flat_hash_map<NodeId, const EagerGroup*> group_at_;  // by its first node
  EagerProgramWriter w_;
  EagerCallTable calls_;
  EagerNumbers numbers_;
  EagerGeometry geometry_;
  EagerCustom custom_;
  EagerComputing computing_;
  std::optional<EagerGroupWriter> group_writer_;
};

// tril_indices and triu_indices become copies of constants: a program can have those, but the call of an operator
// cannot.
absl::Status OpenTriangles(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    const std::string& name = g.node(n).op.name();
    if (name != op::kTrilIndices && name != op::kTriuIndices) continue;
    const ValueId out = g.node(n).outputs[0];
    const NodeId copy =
        g.InsertAfter(n, OpName::Get(op::kClone), {out, InsertConstant(g, n, std::monostate())}, {g.value(out).type});
    g.SetSource(copy, g.node(n).source);
    for (const Use& use : std::vector<Use>(g.value(out).uses.begin(), g.value(out).uses.end())) {
      if (use.user != copy) g.SetInput(use.user, use.index, g.node(copy).outputs[0]);
    }
    SMELT_RETURN_IF_ERROR(Decompose(g, n).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<fb::EagerProgramT>> BuildEagerProgram(const std::unique_ptr<Graph>& g, bool fuse,
                                                                     BundleBuilder& builder) {
  SMELT_RETURN_IF_ERROR(OpenTriangles(*g));
  SMELT_RETURN_IF_ERROR(OpenComposites(*g, StrideChoices::kAtRunTime).status());
  std::optional<EagerGroups> formed;
  if (fuse) formed.emplace(FormEagerGroups(*g));
  return EagerBuilder(*g, std::move(formed), builder).Run();
}

// Returns a copy in which a convolution over one dim makes its operand contiguous before it looks at its format.
std::unique_ptr<Graph> WithContiguousRows(const Graph& graph) {
  std::unique_ptr<Graph> out = graph.Clone();
  Graph& g = *out;
  for (NodeId n : g.AllNodes()) {
    const std::string& name = g.node(n).op.name();
    if (name != op::kConv1d && name != op::kConvTranspose1d && name != op::kConvolution) continue;
    const ValueId rows = g.node(n).inputs[0], weight = g.node(n).inputs[1];
    const Type& type = g.value(weight).type;
    if (!type.IsTensor() || !type.tensor().sizes || type.tensor().rank() != 3) continue;
    const ValueId format = InsertConstant(g, n, int64_t{0});
    const NodeId copy = g.InsertBefore(n, OpName::Get(op::kContiguous), {rows, format}, {g.value(rows).type});
    g.SetSource(copy, g.node(n).source);
    if (InferNode(g, copy).ok()) g.SetInput(n, 0, g.node(copy).outputs[0]);
  }
  return out;
}

}  // namespace

absl::Status AddEagerPlan(const Graph& graph, const std::vector<int>& written_args,
                          const std::vector<int>& written_states, bool fuse, BundleBuilder& builder) {
  std::unique_ptr<Graph> g = WithContiguousRows(graph);
  const bool expects = ExpectTypes(*g, ExpectedDims::kExact);
  auto program = BuildEagerProgram(g, fuse, builder);
  if (expects && absl::IsUnimplemented(program.status())) {
    g = WithContiguousRows(graph);
    ExpectTypes(*g, ExpectedDims::kLikeOperands);
    auto guessed = BuildEagerProgram(g, fuse, builder);
    if (guessed.ok()) program = std::move(guessed);
  }
  SMELT_RETURN_IF_ERROR(program.status());
  builder.AddEagerPlan(*std::move(program), written_args, written_states);
  return absl::OkStatus();
}

}  // namespace smelt
