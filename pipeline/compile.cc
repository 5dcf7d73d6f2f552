#include "smelt/pipeline/compile.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/alias/alias_db.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/llvm_cuda.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/new_geometry.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/functionalize/resolve_dicts.h"
#include "smelt/functionalize/resolve_lists.h"
#include "smelt/functionalize/resolve_numbers.h"
#include "smelt/functionalize/resolve_tuples.h"
#include "smelt/functionalize/simplify_script.h"
#include "smelt/fuser/choose_layouts.h"
#include "smelt/fuser/expand_composites.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/lay_rows.h"
#include "smelt/fuser/lowered_groups.h"
#include "smelt/pipeline/alias_agreement.h"
#include "smelt/pipeline/argument_strides.h"
#include "smelt/pipeline/calls_of_one.h"
#include "smelt/pipeline/eager_plan.h"
#include "smelt/pipeline/layout_inference.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/pipeline/verify_passes.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"

namespace smelt {
namespace {

// The graph's inputs whose memory a call leaves with other contents.
absl::flat_hash_set<ValueId> WrittenInputs(const Graph& g, const Convention& c) {
  const auto is_written = [&](int memory) {
    return absl::c_any_of(c.mutations.memories, [&](const MutatedMemory& m) { return m.memory.value() == memory; });
  };
  absl::flat_hash_set<ValueId> out;
  int distinct = 0;  // of those that are no weights
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const InputInfo& info = g.input_infos[i];
    const bool weight = info.kind == InputInfo::Kind::kWeight;
    const int memory = weight ? c.overlaps.num_argument_memories + g.weights[info.weight].storage
                              : c.overlaps.memory_of[distinct++].value();
    if (is_written(memory)) out.insert(g.inputs()[i]);
  }
  return out;
}

class PhaseTimer {
 public:
  PhaseTimer(const CompileOptions& options, CompileStats& stats) : options_(options), stats_(stats) {}
  void End(const std::string& phase) {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - since_).count();
    since_ = now;
    stats_.phase_ms.push_back({phase, ms});
    if (options_.on_phase) options_.on_phase(phase, ms);
  }

 private:
  const CompileOptions& options_;
  CompileStats& stats_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

// One way to call the model, compiled.
struct Variant {
  fb::VariantKind kind = fb::VariantKind::Distinct;
  // How the results lie for arguments of other strides, asked where they show it; null if there is no such rule.
  std::function<const std::vector<int64_t>*()> result_rule;
  FunctionalizeOptions functionalize;
  BundleBuilder::PlanOptions plan;
};

struct UserArg {
  ValueId value;
  int position;  // among the user's arguments
};

std::vector<UserArg> UserArgs(const Graph& g) {
  std::vector<UserArg> out;
  int position = 0;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) out.push_back({g.inputs()[i], position++});
  }
  return out;
}

// Whether the convention says that an argument's memory or geometry changes, or a state's.
bool Mutates(const Convention& c) { return !c.mutations.memories.empty() || !c.mutations.inputs.empty(); }

// Whether all tensors that are returned lie in new memory, and nothing else is seen of the call.
bool ReturnsNewMemoryOnly(const Convention& c) {
  using Kind = OutputInfo::Kind;
  return !Mutates(c) && std::all_of(c.outputs.outputs.begin(), c.outputs.outputs.end(), [](const OutputInfo& o) {
    return o.kind == Kind::kFresh || o.kind == Kind::kAliasOfIntermediate || o.kind == Kind::kScalar;
  });
}

// Whether a result shows how an argument lies in memory, which is not for a plan of the exported strides to say.
bool HandsOutViews(const Convention& c) {
  return std::any_of(c.outputs.outputs.begin(), c.outputs.outputs.end(), [&](const OutputInfo& o) {
    return o.kind == OutputInfo::Kind::kAliasOfMemory && o.memory.value() < c.overlaps.num_argument_memories;
  });
}

std::vector<int> TensorArgs(const Graph& g) {
  std::vector<int> out;
  for (const UserArg& a : UserArgs(g)) {
    if (g.value(a.value).type.IsTensor()) out.push_back(a.position);
  }
  return out;
}
std::vector<int> AllStorages(const Graph& g) {
  std::vector<int> out;
  for (size_t s = 0; s < g.weight_storages.size(); ++s) out.push_back(static_cast<int>(s));
  return out;
}
// Of the plan for distinct arguments: the user arguments, by position, and the weights' storages that it changes.
std::vector<int> WrittenArgs(const Graph& g, const Convention& distinct) {
  std::vector<int> out;
  for (int position : TensorArgs(g)) {
    bool written = false;
    for (const MutatedMemory& m : distinct.mutations.memories) {
      written = written || distinct.overlaps.memory_of[position] == m.memory;
    }
    for (const MutatedInput& m : distinct.mutations.inputs) {
      written = written || (!m.is_state && m.arg.value() == position);
    }
    if (written) out.push_back(position);
  }
  return out;
}
std::vector<int> WrittenStorages(const Graph& g, const Convention& distinct) {
  std::vector<bool> written(g.weight_storages.size(), false);
  for (const MutatedMemory& m : distinct.mutations.memories) {
    const int storage = m.memory.value() - distinct.overlaps.num_argument_memories;
    if (storage >= 0) written[storage] = true;
  }
  for (const MutatedInput& m : distinct.mutations.inputs) {
    if (m.is_state) written[g.weights[m.state].storage] = true;
  }
  std::vector<int> out;
  for (size_t s = 0; s < written.size(); ++s) {
    if (written[s]) out.push_back(static_cast<int>(s));
  }
  return out;
}

// Duplicates: each pair of arguments that can be one tensor, at most this many pairs.
constexpr int kMaxDuplicatePairs = 6;

std::vector<Variant> DuplicateVariants(const Graph& g, const Convention& distinct) {
  std::vector<Variant> out;
  const std::vector<UserArg> args = UserArgs(g);
  const std::vector<int> changed = WrittenArgs(g, distinct);
  auto written = [&](int position) { return std::find(changed.begin(), changed.end(), position) != changed.end(); };
  for (size_t a = 0; a < args.size(); ++a) {
    for (size_t b = a + 1; b < args.size(); ++b) {
      const Type& ta = g.value(args[a].value).type;
      const Type& tb = g.value(args[b].value).type;
      if (!ta.IsTensor() || ta != tb || (!written(args[a].position) && !written(args[b].position))) continue;
      if (static_cast<int>(out.size()) == kMaxDuplicatePairs) return out;
      Variant v;
      v.kind = fb::VariantKind::Duplicate;
      int next = 0;
      for (size_t k = 0; k < args.size(); ++k) {
        if (k == b) {
          v.functionalize.duplicates.inner_of_outer.push_back(v.functionalize.duplicates.inner_of_outer[a]);
        } else {
          v.functionalize.duplicates.inner_of_outer.push_back(DistinctIndex(next++));
        }
      }
      v.plan.variant = v.kind;
      out.push_back(std::move(v));
    }
  }
  return out;
}

// Whether the order in which arguments' dims lie in memory shows in what the plan returns: in the layout of fresh
// results.
bool OrderShows(const Convention& c) {
  for (const OutputInfo& o : c.outputs.outputs) {
    // A view shows where it lies in the whole, whatever its own rank.
    if (o.kind == OutputInfo::Kind::kAliasOfIntermediate) return true;
    if (o.kind == OutputInfo::Kind::kFresh && o.geometry.sizes.size() > 1) return true;
  }
  for (const MutatedInput& m : c.mutations.inputs) {
    if (m.storage) return true;
  }
  return false;
}

// Whether some node asks for the strides of an argument or a state, or for bytes by their place in the storage, so that
// a copy is not as good. A tensor that becomes another does not.
bool StridesAreSeen(const Graph& g) {
  for (NodeId n : g.AllNodes()) {
    if (g.node(n).op == "aten::set_.source_Tensor") continue;
    const std::string& name = g.node(n).op.name();
    for (const char* part : {"as_strided", "view_as_complex", "_reshape_alias", "stride", "is_contiguous",
                             "storage_offset", "is_non_overlapping", "aten::set_", "aten::resize_"}) {
      if (absl::StrContains(name, part)) return true;
    }
  }
  return false;
}

fb::OtherStrides OtherStridesOf(const Graph& opened_graph, const OpenedComposites& opened, const Convention& c) {
  if (opened.strides_decide || StridesAreSeen(opened_graph)) return fb::OtherStrides::Refused;
  return opened.order_decides || OrderShows(c) ? fb::OtherStrides::CopiedInOrder : fb::OtherStrides::Copied;
}

// Any overlap. Strides are the caller's where the graph's own decisions (is reshape a view?) do not hang on them: then
// only their order is assumed to be the exported one, since it decides the layout of results.
// Dims of one element of `strides_of_ones` lie as exported.
Variant OverlapVariant(const Graph& g, const OpenedComposites& opened, const Convention& distinct,
                       const std::vector<int>& strides_of_ones) {
  const bool strides_decide = opened.strides_decide;
  Variant v;
  v.kind = fb::VariantKind::Overlap;
  v.functionalize.overlapping = true;
  v.functionalize.symbolic_strides = !strides_decide;
  v.plan.variant = v.kind;
  v.plan.exported_strides = strides_decide;
  if (strides_decide) return v;
  for (const UserArg& a : UserArgs(g)) {
    const Value& value = g.value(a.value);
    const bool fixed = std::find(strides_of_ones.begin(), strides_of_ones.end(), a.position) != strides_of_ones.end();
    for (int d = 0; fixed && d < value.type.tensor().rank(); ++d) {
      v.plan.guards.push_back({Expr::Symbol(absl::StrCat(value.name, ".stride", d)), (*value.type.tensor().strides)[d],
                               fb::ExprOp::Eq,
                               absl::StrCat("argument ", value.name, ": its strides are other than at export, and the ",
                                            "format that they suggest shows")});
    }
  }
  if (!opened.order_decides && !OrderShows(distinct)) return v;
  for (const UserArg& a : UserArgs(g)) {
    const Value& value = g.value(a.value);
    if (!value.type.IsTensor()) continue;
    const TensorType& t = value.type.tensor();
    auto hint = [&](const Expr& e) -> int64_t {
      absl::flat_hash_map<std::string, int64_t> values;
      for (const std::string& s : e.Symbols()) {
        auto it = g.symbol_hints.find(s);
        values[s] = it == g.symbol_hints.end() ? 4 : it->second;
      }
      auto x = e.Evaluate(values);
      return x.ok() ? *x : 0;
    };
    std::vector<int> dims;
    for (int d = 0; d < t.rank(); ++d) {
      if ((*t.sizes)[d] != Expr(1)) dims.push_back(d);
    }
    std::stable_sort(dims.begin(), dims.end(),
                     [&](int x, int y) { return hint((*t.strides)[x]) > hint((*t.strides)[y]); });
    // Between equal strides PyTorch chooses by more than their order.
    auto stride = [&](int d) { return Expr::Symbol(absl::StrCat(value.name, ".stride", d)); };
    const std::string message =
        absl::StrCat("argument ", value.name, ": its dims lie in memory in another order than at export");
    for (size_t k = 0; k + 1 < dims.size(); ++k) {
      const bool equal = hint((*t.strides)[dims[k + 1]]) == hint((*t.strides)[dims[k]]);
      v.plan.guards.push_back({stride(dims[k + 1]), stride(dims[k]), equal ? fb::ExprOp::Eq : fb::ExprOp::Lt, message});
    }
    if (dims.size() > 1 && hint((*t.strides)[dims.back()]) > 0)
      v.plan.guards.push_back({Expr(0), stride(dims.back()), fb::ExprOp::Lt, message});
  }
  return v;
}

struct BuiltVariant {
  PlanStats plan;
  fb::OtherStrides other_strides = fb::OtherStrides::Copied;
  bool takes_any_strides = false;  // of arguments, in every call that the guards let through
  FunctionalizeResult functional;
  std::unique_ptr<Graph> pure;
};

absl::StatusOr<BuiltVariant> BuildVariant(const Graph& imported, const Graph& opened, const OpenedComposites& decided,
                                          const Variant& v, const CompileOptions& options, BundleBuilder& builder,
                                          PhaseTimer* timer) {
  BuiltVariant out;
  out.pure = opened.Clone();
  Graph& g = *out.pure;
  // Built once: it follows the edits of all that comes, and fusion asks it.
  AliasDb::Options alias_options;
  alias_options.distinct_inputs = !v.functionalize.overlapping;
  const std::unique_ptr<AliasDb> alias = AliasDb::Build(g, alias_options);
  FunctionalizeOptions functionalize = v.functionalize;
  std::unique_ptr<AliasAgreement> agreement;
  if (options.verify && v.kind == fb::VariantKind::Distinct) {
    agreement = std::make_unique<AliasAgreement>(opened);
    functionalize.on_operand = [&](ValueId tensor, int memory) { agreement->Add(tensor, memory); };
  }
  WorksOnPass("functionalize");
  SMELT_ASSIGN_OR_RETURN(out.functional, Functionalize(g, functionalize));
  if (agreement != nullptr) SMELT_RETURN_IF_ERROR(agreement->status());
  SMELT_RETURN_IF_ERROR(VerifyFunctional(g));
  if (options.on_pass) options.on_pass("functionalize", g);
  if (timer != nullptr) timer->End("functionalize");
  // The evaluator can follow the plan for distinct and for duplicate arguments; shared memory is the runtime's own
  // test.
  const bool verify = options.verify && !v.functionalize.overlapping;
  auto check = [&](absl::string_view pass) -> absl::Status {
    if (options.verify)
      SMELT_RETURN_IF_ERROR(Annotate(alias->Verify(), absl::StrCat("the alias database after ", std::string(pass))));
    if (!verify) return absl::OkStatus();
    return VerifyPass(imported, g, out.functional.convention, pass);
  };
  SMELT_RETURN_IF_ERROR(check("functionalize"));
  WorksOnPass("expand-composites");
  SMELT_RETURN_IF_ERROR(
      ExpandComposites(g));  // after functionalization: a whole softmax is one node while aliasing is decided
  if (options.on_pass) options.on_pass("expand-composites", g);
  SMELT_RETURN_IF_ERROR(check("expand-composites"));
  LoweredGroups lowered;
  if (options.fuse) {
    FuseOptions fuse;
    fuse.lowered = &lowered;
    fuse.alias_db = alias.get();
    fuse.written_inputs = WrittenInputs(g, out.functional.convention);
    const int late_reads = options.verify ? CountLateReads(g) : 0;
    WorksOnPass("fuse");
    SMELT_RETURN_IF_ERROR(Fuse(g, fuse).status());
    if (options.verify) SMELT_RETURN_IF_ERROR(VerifyFusionPlan(g, late_reads));
    if (options.on_pass) options.on_pass("fuse", g);
    SMELT_RETURN_IF_ERROR(check("fuse"));
    WorksOnPass("choose-layouts");
    ChooseLayouts(g);
    if (options.on_pass) options.on_pass("choose-layouts", g);
    WorksOnPass("lay-rows");
    SMELT_RETURN_IF_ERROR(LayRows(g, &lowered).status());
    if (options.on_pass) options.on_pass("lay-rows", g);
    SMELT_RETURN_IF_ERROR(check("lay-rows"));
  }
  if (timer != nullptr) timer->End("fuse");
  WorksOnPass("plan");
  BundleBuilder::PlanOptions plan = v.plan;
  plan.lowered = &lowered;
  if (plan.exported_strides && !v.functionalize.overlapping)
    plan.other_strides = OtherStridesOf(opened, decided, out.functional.convention);
  if (plan.other_strides != fb::OtherStrides::Copied && v.result_rule && !StridesAreSeen(opened) &&
      ReturnsNewMemoryOnly(out.functional.convention)) {
    if (const std::vector<int64_t>* rule = v.result_rule(); rule != nullptr) {
      plan.result_rule = *rule;
      plan.other_strides = fb::OtherStrides::CopiedInOrder;
    }
  }
  out.takes_any_strides = plan.other_strides == fb::OtherStrides::Copied || !plan.result_rule.empty();
  if (plan.exported_strides) out.other_strides = plan.other_strides;
  for (const std::string& symbol : out.functional.at_least_two) {
    plan.guards.push_back({Expr(1), Expr::Symbol(symbol), fb::ExprOp::Lt,
                           absl::StrCat("the size ", symbol, " is 1, expected at least 2: PyTorch then shares memory ",
                                        "that otherwise is copied, and the program shows it")});
  }
  SMELT_ASSIGN_OR_RETURN(out.plan, builder.AddPlan(g, out.functional.convention, plan));
  if (timer != nullptr) timer->End("plan");
  return out;
}

}  // namespace

namespace {

// Whether nothing but errors and warnings says it.
bool IsMessage(const Graph& g, ValueId text) {
  const auto& uses = g.value(text).uses;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return !g.IsReturn(use.user) &&
           (g.node(use.user).op == "prim::RaiseException" || g.node(use.user).op.name() == "aten::warn");
  });
}

// TorchScript's own operators: what prints or warns has no effect that a caller of a bundle sees, x.data is x.detach(),
// and an error is told without the numbers that its text would quote.
void ReplaceScriptOps(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    const std::string& name = g.node(n).op.name();
    if ((name == "prim::Print" || name == "aten::warn") && g.node(n).outputs.empty()) {
      g.Erase(n);
    } else if (name == "aten::format" && IsMessage(g, g.node(n).outputs[0])) {
      g.ReplaceAllUses(g.node(n).outputs[0], g.node(n).inputs[0]);
      g.Erase(n);
    } else if (name == "prim::device" || name == "prim::type") {  // the latter of a device: programs run on the CPU
      const ValueId cpu = InsertConstant(g, n, std::string("cpu"));
      g.SetType(cpu, g.value(g.node(n).outputs[0]).type);
      g.ReplaceAllUses(g.node(n).outputs[0], cpu);
      g.Erase(n);
    } else if (name == "prim::data") {
      g.SetOp(n, OpName::Get("aten::detach"));
    }
  }
}

// Whether nobody changes the list, under this name or another.
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
      g.InsertBefore(g.block(g.top()).return_node, OpName::Get("prim::ListUnpack"), {list}, (*inferred)[0].elements);
  g.SetSource(unpack, g.node(def).source);
  return std::vector<ValueId>(g.node(unpack).outputs.begin(), g.node(unpack).outputs.end());
}

// A list that is returned, by itself or in a tuple, is its elements, as in a signature of torch.export.
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
    } else if (!g.IsParam(def) && g.node(def).op == "prim::TupleConstruct") {
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
  while (!g.outputs().empty()) g.EraseResult(g.top(), static_cast<int>(g.outputs().size()) - 1);
  g.output_names.clear();
  for (size_t k = 0; k < flat.size(); ++k) g.AddOutput(flat[k], names[k]);
  return absl::OkStatus();
}

}  // namespace

absl::Status CompleteTypes(Graph& g, bool simplify) {
  ReplaceScriptOps(g);
  ResolveNumbers(g);
  if (simplify) SimplifyScript(g, /*inferred=*/false);  // first: lists that the others resolve may be filled there
  ResolveTuples(g);                                     // dictionaries and lists may be carried in them
  ResolveDicts(g);
  ResolveLists(g);
  std::vector<std::string> missing;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Value& v = g.value(g.inputs()[i]);
    if (!v.type.IsTensor()) continue;
    TensorType t = v.type.tensor();
    if (t.dtype && t.sizes && !t.strides) {
      t.strides = ContiguousStrides(*t.sizes);
      g.SetType(g.inputs()[i], Type::Tensor(*t.dtype, *t.sizes, *t.strides));
    } else if (!t.IsComplete()) {
      missing.push_back(absl::StrCat("%", v.name, " : ", v.type.ToString()));
    }
  }
  if (!missing.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "inputs without a complete type (dtype, sizes; strides where not contiguous): ", absl::StrJoin(missing, ", ")));
  }
  // Results are called as the text calls them, each name once.
  absl::flat_hash_set<std::string> taken(g.output_names.begin(), g.output_names.end());
  for (size_t i = 0; i < g.output_names.size(); ++i) {
    const std::string& name = g.value(g.outputs()[i]).name;
    const bool numbered = name.find_first_not_of("0123456789") == std::string::npos;
    if (g.output_names[i].empty() && !numbered && taken.insert(name).second) g.output_names[i] = name;
  }
  UseNewGeometries(g);  // a value has one type
  // What is known of sizes may decide what comes next, up to where inference stopped.
  absl::Status inferred = InferTypes(g);
  while (simplify && SimplifyScript(g, /*inferred=*/true)) inferred = InferTypes(g);
  SMELT_RETURN_IF_ERROR(WithAllUnsupported(g, inferred));
  return ReturnElements(g);
}

namespace {

// A text holds the sizes of weights, not their contents.
absl::Status CheckWeightsHaveData(const Graph& g) {
  std::vector<std::string> missing;
  for (const Weight& w : g.weights) {
    const std::shared_ptr<Storage>& s = g.weight_storages[w.storage];
    if (s == nullptr || (s->bytes() > 0 && s->data() == nullptr)) missing.push_back(absl::StrCat("\"", w.name, "\""));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("weights without data, which a .pt2 or .smg holds: ", absl::StrJoin(missing, ", ")));
}

// The plan is for calls in which none of the sets is all 1; or, of `ones`, for those in which these symbols are, and no
// other of which that makes another program. A size of 0 is none of 1: there is nothing to lay out.
void AddSizeGuards(const CallsOfOne& of_one, const std::set<std::string>& ones, Variant& v) {
  const auto beside_one = [](const std::string& symbol) {
    const Expr d = Expr::Symbol(symbol) - 1;
    return d * d;
  };
  const auto not_all_one = [&](const std::set<std::string>& set) {
    Expr sum = 0;
    for (const std::string& symbol : set) sum = sum + beside_one(symbol);
    v.plan.guards.push_back({Expr(0), sum, fb::ExprOp::Lt,
                             absl::StrCat("the size ", absl::StrJoin(set, ", "), " is 1, expected another: PyTorch ",
                                          "then lays out in another way what the program shows")});
  };
  for (const std::string& symbol : of_one.never_empty) {
    v.plan.guards.push_back({Expr(0), Expr::Symbol(symbol), fb::ExprOp::Lt,
                             absl::StrCat("the size ", symbol, " is 0, expected at least 1")});
  }
  if (!of_one.few.empty()) {
    Expr count = 0;
    for (const std::string& symbol : of_one.few) count = count + Max(Expr(1) - beside_one(symbol), 0);
    v.plan.guards.push_back({count, Expr(of_one.most_of_few), fb::ExprOp::Le,
                             absl::StrCat("more than ", of_one.most_of_few, " sizes are 1")});
  }
  if (ones.empty()) {
    for (const std::set<std::string>& set : of_one.sets) not_all_one(set);
    return;
  }
  for (const std::string& symbol : of_one.symbols) {
    if (ones.count(symbol) == 0) {
      not_all_one({symbol});
    } else {
      v.plan.guards.push_back(
          {Expr::Symbol(symbol), Expr(1), fb::ExprOp::Eq, absl::StrCat("the size ", symbol, " is not 1")});
    }
  }
}

struct Planned {
  std::unique_ptr<Graph> pure;  // of the plan for distinct arguments
  std::vector<int> main_uses;   // of each kernel, in that plan
  std::vector<std::string> refused;
  // User arguments of which dims of one element must lie as exported, and such of which no strides matter.
  std::vector<int> strides_of_ones, any_strides;
};

// All plans of the bundle, up to its kernels, which the builder then knows.
absl::StatusOr<Planned> BuildPlans(const Graph& graph, const CompileOptions& options, BundleBuilder& builder,
                                   CompileStats& stats, PhaseTimer& timer) {
  Planned out;
  const std::vector<NodeId> nodes = graph.AllNodes();
  for (NodeId n : nodes) stats.nodes += graph.node(n).op != "prim::Constant";

  BuiltVariant main;
  OpenedComposites decided;
  const std::unique_ptr<Graph> opened = graph.Clone();
  const LayoutInference layouts(graph);
  CallsOfOne of_one = FindCallsOfOne(graph, layouts, {});
  const auto others = [&](Variant v) {
    AddSizeGuards(of_one, {}, v);
    return v;
  };
  std::optional<absl::StatusOr<std::vector<int64_t>>> rule;
  const auto result_rule = [&]() -> const std::vector<int64_t>* {
    if (!rule) rule = layouts.RuleOfResults();
    return rule->ok() ? &**rule : nullptr;
  };
  auto build_main = [&]() -> absl::Status {
    WorksOnPass("open-composites");
    SMELT_ASSIGN_OR_RETURN(decided, OpenComposites(*opened));
    if (options.on_pass) options.on_pass("open-composites", *opened);
    timer.End("open");
    Variant v;
    v.result_rule = result_rule;
    SMELT_ASSIGN_OR_RETURN(main, BuildVariant(graph, *opened, decided, others(v), options, builder, &timer));
    return absl::OkStatus();
  };
  const absl::Status built = build_main();
  // PyTorch itself refuses the program (a write to expanded memory, say): so does the bundle, when it is called.
  const bool refuses = absl::IsFailedPrecondition(built);
  // What cannot be made pure runs in eager order.
  const bool unordered = absl::IsUnimplemented(built) && absl::StrContains(built.message(), kAnswerHangsOnOrder);
  const bool impure = !unordered && (absl::IsUnimplemented(built) || absl::IsInvalidArgument(built));
  // In a branch or a loop it does so only when it gets there, which is seen in eager order.
  const auto has_blocks = [&](NodeId n) { return !graph.node(n).blocks.empty(); };
  const bool perhaps = refuses && std::any_of(nodes.begin(), nodes.end(), has_blocks);
  if (refuses) {
    const bool when_run = perhaps && AddEagerPlan(graph, TensorArgs(graph), AllStorages(graph), builder).ok();
    if (!when_run) builder.AddRefusal(std::string(built.message()), "");
  } else if (impure) {
    const absl::Status eager = AddEagerPlan(graph, TensorArgs(graph), AllStorages(graph), builder);
    // What stops both is said once.
    if (!eager.ok() && (eager.message() == built.message() || IsListOfUnsupported(built))) return built;
    if (!eager.ok())
      return absl::UnimplementedError(absl::StrCat(built.message(), "; in eager order: ", eager.message()));
    stats.eager_order = std::string(built.message());
  } else {
    SMELT_RETURN_IF_ERROR(built);
  }
  if (refuses || impure) main.pure = graph.Clone();
  stats.mutations_removed = main.functional.mutations_removed;
  stats.fusion_groups = main.plan.launches;
  stats.distinct_kernels = main.plan.distinct_kernels;
  stats.library_calls = main.plan.library_calls;
  out.main_uses = builder.kernel_uses();

  // Calls with a size of 1 that are other programs.
  bool all_of_one = true;  // have a plan
  if (!refuses && !impure) {
    const std::set<std::string>& at_least_two = main.functional.at_least_two;
    const bool more = std::any_of(at_least_two.begin(), at_least_two.end(),
                                  [&](const std::string& s) { return of_one.symbols.count(s) == 0; });
    if (more) of_one = FindCallsOfOne(graph, layouts, at_least_two);
    all_of_one = of_one.IsNone();
    for (const ProgramOfOne& program : of_one.programs) {
      auto build = [&]() -> absl::Status {
        const std::unique_ptr<Graph> copy = program.graph->Clone();
        WorksOnPass("open-composites");
        SMELT_ASSIGN_OR_RETURN(const OpenedComposites of_copy, OpenComposites(*copy));
        Variant v;
        v.result_rule = result_rule;
        AddSizeGuards(of_one, program.symbols, v);
        return BuildVariant(*program.graph, *copy, of_copy, v, options, builder, nullptr).status();
      };
      const absl::Status one = build();
      if (absl::IsInternal(one) && options.verify) return one;
      all_of_one =
          all_of_one || (one.ok() && of_one.symbols.size() == 1 && of_one.few.empty() && of_one.never_empty.empty());
    }
  }

  bool may_lie_otherwise = false;  // than any plan so far takes
  if (!refuses && !impure) {
    out.strides_of_ones = ArgumentsWithStridesOfOnes(graph, layouts);
    if (!main.takes_any_strides) out.any_strides = ArgumentsOfAnyStrides(graph, layouts);
    may_lie_otherwise = !main.takes_any_strides && out.any_strides.size() < TensorArgs(graph).size();
  }

  // Other alias patterns. One that cannot be compiled is refused at run time, with the reason.
  const Convention& convention = main.functional.convention;
  const bool wanted = !refuses && !impure &&
                      (options.variants == AliasVariants::kAll || (options.variants == AliasVariants::kAuto &&
                                                                   (Mutates(convention) || HandsOutViews(convention))));
  if (options.variants == AliasVariants::kNone) out.refused.push_back("compiled with --alias-variants=none");
  if (wanted && !TensorArgs(graph).empty()) {
    std::vector<Variant> variants;
    if (graph.written_at_the_end) {
      out.refused.push_back(
          "after run_decompositions() the archive does not say what is read before and what after a write");
    } else {
      variants = DuplicateVariants(graph, convention);
      variants.push_back(OverlapVariant(graph, decided, convention, out.strides_of_ones));
    }
    for (const Variant& v : variants) {
      auto build = [&]() -> absl::StatusOr<BuiltVariant> {
        if (v.kind != fb::VariantKind::Duplicate)
          return BuildVariant(graph, *opened, decided, others(v), options, builder, nullptr);
        const std::unique_ptr<Graph> merged = graph.Clone();
        MergeDuplicates(*merged, v.functionalize.duplicates);
        WorksOnPass("open-composites");
        SMELT_ASSIGN_OR_RETURN(const OpenedComposites of_merged, OpenComposites(*merged));
        return BuildVariant(graph, *merged, of_merged, others(v), options, builder, nullptr);
      };
      auto variant = build();
      if (!variant.ok() && v.functionalize.symbolic_strides) {
        // Not for any strides, then; for those of the export, perhaps.
        OpenedComposites fixed = decided;
        fixed.strides_decide = true;
        variant =
            BuildVariant(graph, *opened, fixed, others(OverlapVariant(graph, fixed, convention, out.strides_of_ones)),
                         options, builder, nullptr);
      }
      if (variant.ok()) continue;
      if (absl::IsInternal(variant.status()) && options.verify) return variant.status();
      out.refused.push_back(std::string(variant.status().message()));
      stats.uncompiled_variants.push_back(absl::StrCat(v.kind == fb::VariantKind::Duplicate ? "duplicate" : "overlap",
                                                       ": ", variant.status().message()));
    }
    // Behind them the plan that is right for every pattern.
    const absl::Status eager =
        AddEagerPlan(graph, WrittenArgs(graph, convention), WrittenStorages(graph, convention), builder);
    if (eager.ok()) {
      if (!graph.written_at_the_end) out.refused.clear();
    } else {
      out.refused.push_back(std::string(eager.message()));
      stats.uncompiled_variants.push_back(absl::StrCat("eager-order: ", eager.message()));
    }
    timer.End("variants");
  } else if ((!all_of_one || !out.strides_of_ones.empty() || main.functional.assumes || may_lie_otherwise) &&
             options.variants != AliasVariants::kNone) {
    // Where it cannot run in eager order, such a call is refused by the guard.
    AddEagerPlan(graph, WrittenArgs(graph, convention), WrittenStorages(graph, convention), builder).IgnoreError();
  }
  out.pure = std::move(main.pure);
  return out;
}

// An output that is a tuple, as TorchScript has it, becomes its elements: a caller sees them flat. Null if there is
// none.
std::unique_ptr<Graph> FlattenOutputs(const Graph& imported) {
  const bool any = std::any_of(imported.outputs().begin(), imported.outputs().end(), [&](ValueId v) {
    const NodeId def = imported.value(v).def;
    return !imported.IsParam(def) && imported.node(def).op == "prim::TupleConstruct";
  });
  if (!any) return nullptr;
  std::unique_ptr<Graph> copy = imported.Clone();
  Graph& g = *copy;
  std::vector<ValueId> flat;
  std::vector<std::string> names;
  auto add = [&](auto& self, ValueId v, const std::string& name) -> void {
    const NodeId def = g.value(v).def;
    if (g.IsParam(def) || g.node(def).op != "prim::TupleConstruct") {
      flat.push_back(v);
      names.push_back(name);
      return;
    }
    for (ValueId e : std::vector<ValueId>(g.node(def).inputs.begin(), g.node(def).inputs.end())) self(self, e, "");
  };
  for (size_t k = 0; k < g.outputs().size(); ++k) {
    add(add, g.outputs()[k], k < g.output_names.size() ? g.output_names[k] : "");
  }
  while (!g.outputs().empty()) g.EraseResult(g.top(), static_cast<int>(g.outputs().size()) - 1);
  g.output_names.clear();
  for (size_t k = 0; k < flat.size(); ++k) g.AddOutput(flat[k], names[k]);
  return copy;
}

absl::StatusOr<CompileStats> Compile(const Graph& imported, const std::string& path, const CompileOptions& options) {
  CompileStats stats;
  PhaseTimer timer(options, stats);
  const std::unique_ptr<Graph> flat = FlattenOutputs(imported);
  const Graph& graph = flat != nullptr ? *flat : imported;
  BundleBuilder builder(graph);
  SMELT_ASSIGN_OR_RETURN(Planned planned, BuildPlans(graph, options, builder, stats, timer));
  SMELT_ASSIGN_OR_RETURN(fb::BundleT bundle, builder.Finish());
  for (int arg : planned.strides_of_ones) bundle.args[arg]->strides_of_ones = true;
  for (int arg : planned.any_strides) bundle.args[arg]->any_strides = true;
  bundle.graph_text = PrintGraph(*planned.pure);
  bundle.refused_patterns = absl::StrJoin(planned.refused, "; ");

  // Kernels, each once a target.
  WorksOnPass("kernels");
  std::unique_ptr<KernelCache> own;
  KernelCache* cache = options.cache;
  if (cache == nullptr) {
    SMELT_ASSIGN_OR_RETURN(own, KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff}));
    cache = own.get();
  }
  const KernelCache::Stats before = cache->stats();
  SMELT_ASSIGN_OR_RETURN(ContainerWriter writer, ContainerWriter::Create(path, ContentKind::kBundle));
  const std::vector<KernelSpec>& kernels = builder.kernels();
  for (const Target target : options.targets) {
    std::vector<KernelCache::Request> requests;
    for (const KernelSpec& spec : kernels) requests.push_back({&spec, target});
    SMELT_ASSIGN_OR_RETURN(std::vector<std::shared_ptr<const KernelObject>> objects,
                           cache->GetOrCompileAll(requests, options.threads));
    std::vector<const KernelObject*> pointers;
    for (const auto& o : objects) pointers.push_back(o.get());
    Image image;
    if (IsCuda(target)) {
      SMELT_ASSIGN_OR_RETURN(CudaImage cuda, LinkCudaImage(pointers));
      image = std::move(cuda.image);
      if (!pointers.empty() && !cuda.is_cubin) {
        stats.notes.push_back(
            absl::StrCat("target ", Name(target),
                         ": ptxas is not found; the bundle holds PTX and no cubin, so the driver will "
                         "assemble it at each load"));
      }
    } else {
      SMELT_ASSIGN_OR_RETURN(image, LinkImage(pointers));
    }
    auto code = std::make_unique<fb::TargetCodeT>();
    code->name = Name(target);
    code->triple = Triple(target);
    code->features = RequiredFeatures(target);
    SMELT_ASSIGN_OR_RETURN(code->image_segment, writer.Add(SegmentKind::kCode, image.bytes));
    for (size_t i = 0; i < image.entries.size(); ++i) {
      auto k = std::make_unique<fb::TargetKernelT>();
      k->offset = image.entries[i].offset;
      k->size = image.entries[i].size;
      k->key = objects[i]->key;
      code->kernels.push_back(std::move(k));
    }
    bundle.targets.push_back(std::move(code));
    if (bundle.kernels.empty()) {
      for (size_t i = 0; i < kernels.size(); ++i) {
        auto k = std::make_unique<fb::KernelT>();
        k->key = objects[i]->key;
        k->spec = kernels[i].ToString();
        k->uses = i < planned.main_uses.size() ? planned.main_uses[i] : 0;
        k->num_words = static_cast<int>(kernels[i].num_words());
        bundle.kernels.push_back(std::move(k));
      }
    }
  }
  const KernelCache::Stats after = cache->stats();
  stats.kernels_compiled = after.compiled - before.compiled;
  stats.kernels_from_cache = (after.memory_hits + after.disk_hits + after.store_hits) -
                             (before.memory_hits + before.disk_hits + before.store_hits);
  timer.End("kernels");

  // States: one segment, storages at multiples of 64.
  WorksOnPass("write");
  if (!bundle.storages.empty()) {
    SMELT_RETURN_IF_ERROR(writer.Begin(SegmentKind::kWeights));
    int64_t at = 0;
    const std::string zeros(4096, '\0');
    std::vector<Tensor> constants = builder.constants();
    for (size_t s = 0; s < bundle.storages.size(); ++s) {
      fb::StateStorageT& storage = *bundle.storages[s];
      const char* data = s < graph.weight_storages.size()
                             ? graph.weight_storages[s]->data()
                             : static_cast<const char*>(constants[s - graph.weight_storages.size()].data());
      if (storage.bytes == 0) {
        storage.segment = -1;
        continue;
      }
      // Mutable ones begin a page, so that their copy-on-write mappings are their own.
      const int64_t align = storage.is_mutated ? 4096 : 64;
      const int64_t pad = (align - at % align) % align;
      auto append = [&](const char* p, int64_t n) {
        return writer.Append(absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(p), n));
      };
      SMELT_RETURN_IF_ERROR(append(zeros.data(), pad));
      at += pad;
      storage.segment_offset = at;
      SMELT_RETURN_IF_ERROR(append(data, storage.bytes));
      at += storage.bytes;
    }
    SMELT_ASSIGN_OR_RETURN(int segment, writer.End());
    for (auto& storage : bundle.storages) {
      if (storage->bytes > 0) storage->segment = segment;
    }
  }
  SMELT_RETURN_IF_ERROR(VerifyBundle(bundle, nullptr));
  SMELT_RETURN_IF_ERROR(writer.Add(SegmentKind::kMetadata, EncodeBundle(bundle)).status());
  SMELT_RETURN_IF_ERROR(writer.Finish());
  stats.bundle_bytes = writer.bytes_written();
  timer.End("write");
  return stats;
}

}  // namespace

absl::StatusOr<std::vector<KernelSpec>> PlanKernels(const Graph& imported, const CompileOptions& options) {
  return Recovered<std::vector<KernelSpec>>("plan", [&]() -> absl::StatusOr<std::vector<KernelSpec>> {
    CompileStats stats;
    PhaseTimer timer(options, stats);
    const std::unique_ptr<Graph> flat = FlattenOutputs(imported);
    const Graph& graph = flat != nullptr ? *flat : imported;
    BundleBuilder builder(graph);
    auto planned = BuildPlans(graph, options, builder, stats, timer);
    if (!planned.ok()) return WithAllUnsupported(graph, planned.status());
    return builder.kernels();
  });
}

absl::StatusOr<CompileStats> CompileToFile(const Graph& graph, const std::string& path, const CompileOptions& options) {
  return Recovered<CompileStats>("compile", [&]() -> absl::StatusOr<CompileStats> {
    SMELT_RETURN_IF_ERROR(CheckWeightsHaveData(graph));
    auto stats = Compile(graph, path, options);
    if (!stats.ok()) return WithAllUnsupported(graph, stats.status());
    return stats;
  });
}

}  // namespace smelt
