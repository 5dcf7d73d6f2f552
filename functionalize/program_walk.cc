#include "smelt/functionalize/program_walk.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/branch.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {

bool IsViewOp(OpName op) { return GetOpInfo(op).kind == OpKind::kView && op != op::kSmeltView; }

bool IsTensorList(const Type& t) {
  return t.kind() == TypeKind::kList &&
         (t.element().IsTensor() || (t.element().kind() == TypeKind::kOptional && t.element().element().IsTensor()));
}

bool HoldsTensors(const Type& t) {
  switch (t.kind()) {
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool:
    case TypeKind::kComplex:
    case TypeKind::kNumber:
    case TypeKind::kString:
    case TypeKind::kNone:
    case TypeKind::kDevice:
    case TypeKind::kGenerator:
      return false;
    case TypeKind::kList:
    case TypeKind::kOptional:
      return HoldsTensors(t.element());
    default:
      return true;
  }
}

namespace {

// Whatever its elements are: the results may be the same tensors.
bool TakesAnyList(const FunctionSchema* schema) {
  if (schema == nullptr || schema->arguments.empty()) return false;
  const std::string& type = schema->arguments[0].type_text;
  return absl::StartsWith(type, "t[") || absl::StartsWith(type, "Dict(");
}

}  // namespace

ProgramWalk::Operator& ProgramWalk::OperatorOf(OpName op) {
  std::unique_ptr<Operator>& entry = operators[op];
  if (entry != nullptr) return *entry;
  entry = std::make_unique<Operator>();
  Operator& o = *entry;
  o.schema = FindSchema(op);
  const OpTraits& traits = GetOpTraits(op);
  const std::string& name = op.name();
  o.absolute = traits.reaches_storage;
  o.resolves = traits.resolves;
  if (name == op::kPrimConstant || name == op::kSmeltSize) {
    o.step = Step::kNone;
  } else if (name == op::kPrimListConstruct || name == op::kPrimTupleConstruct) {
    o.step = Step::kConstruct;
  } else if (name == op::kPrimListUnpack || name == op::kPrimTupleUnpack) {
    o.step = Step::kUnpack;
  } else if (name == op::kPrimTupleIndex || name == op::kPrimUncheckedCast || name == op::kPrivateUnwrapOptional ||
             GetOpInfo(op).kind == OpKind::kContainer || TakesAnyList(o.schema)) {
    o.step = Step::kElement;
  } else if (IsBranch(op)) {
    o.step = Step::kIf;
  } else if (name == op::kSmeltWhileLoop || name == op::kPrimLoop) {
    o.step = Step::kLoop;
  } else if (name == op::kSmeltAssertNoOverlap) {
    o.step = Step::kCheckApart;
  } else if (o.schema == nullptr || op.IsDeclared()) {
    o.step = Step::kUnknown;
  } else if (GetOpInfo(op).kind == OpKind::kInplaceView) {
    o.step = Step::kInPlaceView;
  } else if (name == op::kSetInPlace) {
    o.step = Step::kSet;
  } else if (traits.resizes) {
    o.step = Step::kResize;
  } else if (IsViewOp(op)) {
    o.step = Step::kView;
  } else if (o.schema->IsMutable()) {
    o.step = Step::kWrite;
  } else {
    o.step = Step::kPure;
  }
  return o;
}

absl::Status ProgramWalk::At(OpName op, absl::Status s) const {
  return Annotate(s, OperatorAndSource(op, at.source.get()));
}

MemoryId ProgramWalk::NewMemory(MemoryState m) { return memories.Add(std::move(m)); }

TensorId ProgramWalk::NewTensor(MemoryId m, SymbolicGeometry geometry, int home) {
  tensors.push_back({m, home, std::move(geometry)});
  return static_cast<int>(tensors.size()) - 1;
}

void ProgramWalk::BindFresh(ValueId v) {
  const Type& t = g.value(v).type;
  MemoryState m;
  m.nominal = GeometryOf(t.tensor());
  m.version = m.initial = v;
  SymbolicGeometry geometry = m.nominal;
  tensor_of[v] = NewTensor(NewMemory(std::move(m)), std::move(geometry));
}

absl::StatusOr<TensorId> ProgramWalk::TensorOf(ValueId v) const {
  const TensorId* t = tensor_of.Find(v);
  if (t == nullptr)
    return absl::InternalError(absl::StrCat("%", g.value(v).name, " is no tensor that functionalization knows"));
  return *t;
}

void ProgramWalk::DropCachedViewsSince(size_t mark) {
  for (; cache_log.size() > mark; cache_log.pop_back()) {
    std::vector<CachedView>& cache = view_cache[cache_log.back()];
    if (!cache.empty()) cache.pop_back();  // else dropped with its version
  }
}

void ProgramWalk::ShareAtOne(MemoryId a, MemoryId b, const std::vector<std::string>& symbols) {
  memories.Edit(a).shared_at_one.push_back({b, symbols});
  memories.Edit(b).shared_at_one.push_back({a, symbols});
}

void ProgramWalk::NoteWriteAtOne(MemoryId id) {
  if (memories[id].shared_at_one.empty()) return;
  absl::flat_hash_set<MemoryId> seen = {id};
  std::vector<std::pair<MemoryId, std::vector<std::string>>> todo = {{id, {}}};
  while (!todo.empty()) {
    const auto [now, way] = todo.back();
    todo.pop_back();
    for (const SharedAtOne& shared : memories[now].shared_at_one) {
      if (!seen.insert(shared.other).second) continue;
      std::vector<std::string> symbols = way;
      symbols.insert(symbols.end(), shared.symbols.begin(), shared.symbols.end());
      // In a loop the nodes before a write also come after it.
      if (at.block_depth > 0) {
        ExpectAtLeastTwo(symbols);
      } else {
        memories.Edit(shared.other).stale_at_one.insert(symbols.begin(), symbols.end());
      }
      todo.push_back({shared.other, std::move(symbols)});
    }
  }
}

void ProgramWalk::ExpectAtLeastTwo(const std::vector<std::string>& symbols) {
  result.at_least_two.insert(symbols.begin(), symbols.end());
}

}  // namespace smelt
