// The effects of nodes that no schema describes.
#include "absl/container/flat_hash_map.h"
#include "smelt/core/op/effect_tables.h"

namespace smelt::effects_internal {

namespace {

// Effects that no schema describes: those of TorchScript's and smelt's own nodes.
const absl::flat_hash_map<absl::string_view, EffectKind>& SpecialKinds() {
  static const auto* const kKinds = new absl::flat_hash_map<absl::string_view, EffectKind>{
      {"prim::Constant", EffectKind::kConstant},
      {"prim::Uninitialized", EffectKind::kConstant},  // never looked at
      {"prim::If", EffectKind::kIf},
      {"prim::Loop", EffectKind::kLoop},
      {"smelt::cond", EffectKind::kCond},
      {"smelt::while_loop", EffectKind::kWhile},
      {"prim::TupleConstruct", EffectKind::kTupleConstruct},
      {"prim::ListConstruct", EffectKind::kListConstruct},
      {"prim::DictConstruct", EffectKind::kDictConstruct},
      {"prim::TupleUnpack", EffectKind::kTupleUnpack},
      {"prim::ListUnpack", EffectKind::kListUnpack},
      {"prim::TupleIndex", EffectKind::kTupleIndex},
      {"prim::TupleSlice", EffectKind::kTupleSlice},
      {"prim::GetAttr", EffectKind::kGetAttr},
      {"prim::SetAttr", EffectKind::kSetAttr},
      {"prim::CreateObject", EffectKind::kCreateObject},
      {"prim::fork", EffectKind::kFork},
      {"prim::awaitable", EffectKind::kFork},
      {"aten::wait", EffectKind::kWait},
      {"prim::awaitable_wait", EffectKind::kWait},
      {"prim::FusionGroup", EffectKind::kSubgraph},
      {"prim::CudaFusionGroup", EffectKind::kSubgraph},
      {"prim::TensorExprGroup", EffectKind::kSubgraph},
      {"prim::TensorExprDynamicGroup", EffectKind::kSubgraph},
      {"prim::oneDNNFusionGroup", EffectKind::kSubgraph},
      {"prim::DifferentiableGraph", EffectKind::kSubgraph},
      {"prim::FunctionalGraph", EffectKind::kSubgraph},
      {"prim::FallbackGraph", EffectKind::kSubgraph},
      {"prim::StaticSubgraph", EffectKind::kSubgraph},
      {"smelt::FusionGroup", EffectKind::kSubgraph},
      {"smelt::call", EffectKind::kSubgraph},
      {"prim::ConstantChunk", EffectKind::kConstantChunk},
  };
  return *kKinds;
}

}  // namespace

OpEffects UnknownEffects() {
  OpEffects e;
  e.kind = EffectKind::kUnknown;
  e.more_args = kReadsData | kReadsGeometry | kWritesData | kWritesGeometry | kReadsElements | kWritesElements |
                kReshapesElements | kReadsContainer | kWritesContainer | kShufflesContainer | kEscapes;
  e.more_results.unknown = e.more_results.fresh = true;
  e.side_effect = e.random = e.writes = true;
  return e;
}

namespace {

// Runs TorchScript code that the graph does not show: it reaches everything that its arguments reach, and nothing else,
// because it has no globals.
OpEffects Call() {
  OpEffects e = UnknownEffects();
  e.kind = EffectKind::kCall;
  return e;
}

OpEffects PureVarargs(uint16_t args) {
  OpEffects e;
  e.more_args = args;
  e.more_results.fresh = true;
  return e;
}

}  // namespace

// The list of these nodes, in groups of equal effects.
bool MakeSpecial(absl::string_view name, OpEffects* e) {
  auto kind = SpecialKinds().find(name);
  if (kind != SpecialKinds().end()) {
    e->kind = kind->second;
    switch (kind->second) {
      case EffectKind::kTupleUnpack:
      case EffectKind::kTupleIndex:
      case EffectKind::kTupleSlice:
        break;  // tuples do not change: nothing is read
      case EffectKind::kListUnpack:
      case EffectKind::kGetAttr:
        e->more_args = kReadsContainer;
        break;
      case EffectKind::kConstantChunk:
        e->args = {kReadsGeometry};
        e->more_results.view = 1;
        break;
      case EffectKind::kSetAttr:
        e->args = {kReadsContainer | kWritesContainer, kStored};
        e->writes = true;
        break;
      case EffectKind::kWait:
        e->more_args = kReadsContainer;
        e->side_effect = true;
        break;
      case EffectKind::kFork:
        e->side_effect = true;
        break;
      case EffectKind::kSubgraph:
        *e = PureVarargs(kReadsAll);
        e->kind = EffectKind::kSubgraph;
        break;
      default:
        break;
    }
    return true;
  }
  static const NameSet* const kSelf0 = new NameSet{"prim::unchecked_cast",
                                                   "prim::unchecked_unwrap_optional",
                                                   "aten::_unwrap_optional",
                                                   "prim::profile",
                                                   "prim::profile_ivalue",
                                                   "prim::BailOut",
                                                   "prim::Guard",
                                                   "aten::Size",
                                                   "prim::annotate"};
  if (kSelf0->contains(name)) {
    e->results.resize(1);
    e->results[0].self = 1;
    return true;
  }
  if (name == "prim::TypeCheck" || name == "prim::RequiresGradCheck" || name == "prim::oneDNNFusionGuard" ||
      name == "prim::TensorExprDynamicGuard") {
    e->more_args = kReadsGeometry;
    for (int i = 0; i < 64; ++i) {
      ResultEffects r;
      r.self = Bit(i);
      e->results.push_back(r);
    }
    return true;
  }
  if (name == "prim::Print") {
    *e = PureVarargs(kReadsAll);
    e->side_effect = true;
    return true;
  }
  if (name == "prim::IfThenElse" || name == "prim::AutogradAdd" || name == "prim::max" || name == "prim::min") {
    *e = PureVarargs(kReadsAll);
    e->results.resize(1);
    e->results[0].self = 7;
    e->results[0].fresh = name != "prim::IfThenElse";
    return true;
  }
  if (name == "prim::ModuleContainerIndex") {
    e->args = {kReadsContainer};
    e->results.resize(1);
    e->results[0].element = 1;
    return true;
  }
  static const NameSet* const kUnknownNames = new NameSet{
      "prim::PythonOp", "prim::IgnoredPythonOp",       "prim::rpc_async", "prim::rpc_sync",    "prim::rpc_remote",
      "prim::Closure",  "prim::StaticRuntimeCopyOuts", "aten::to_here",   "aten::local_value", "aten::get_gradients"};
  if (kUnknownNames->contains(name)) {
    *e = UnknownEffects();
    return true;
  }
  if (name == "prim::CallFunction" || name == "prim::CallMethod") {
    *e = Call();
    return true;
  }
  if (name == "prim::Enter" || name == "prim::Exit") {
    *e = Call();
    e->by = OpEffects::By::kWith;
    return true;
  }
  if (name == "aten::format" || name == "aten::percentFormat" || name == "aten::has_torch_function" ||
      name == "prim::AutogradAllNonZero" || name == "prim::AutogradAllZero" || name == "prim::AutogradAnyNonZero") {
    *e = PureVarargs(kReadsAll);
    return true;
  }
  if (name == "prim::AutogradZero" || name == "prim::tolist" || name == "prim::rangelist" ||
      name == "prim::VarConcat" || name == "prim::VarStack" || name == "prim::FusedConcat" ||
      name == "prim::MMTreeReduce" || name == "prim::MMBatchSide" || name == "prim::ConstantMKLDNNTensor" ||
      name == "prim::BroadcastMKLDNNTensors" || name == "prim::ChunkSizes" || name == "prim::BroadcastSizes") {
    *e = PureVarargs(kReadsAll);
    e->more_results.elements_fresh = true;
    return true;
  }
  return false;
}

}  // namespace smelt::effects_internal
