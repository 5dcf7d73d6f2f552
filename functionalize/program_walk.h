// A walk over a program in order, over memories and tensors (memory.h): what the parts of functionalization share.
// Internal.
//
// argument_memories.h begins it, operators.h takes it node by node, with view_operators.h, write_operators.h and
// control_flow.h; contents.h reads and writes tensors. Smaller parts know nothing of the walk: memories and who may share
// them (memory_table.h, possible_sharing.h), inputs (program_inputs.h), nodes that it inserts (region_nodes.h,
// size_assertions.h), and what happens when it is over (convention_builder.h, erase_dead.h).
#ifndef SMELT_FUNCTIONALIZE_PROGRAM_WALK_H_
#define SMELT_FUNCTIONALIZE_PROGRAM_WALK_H_

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "smelt/core/base/id_map.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/memory_table.h"
#include "smelt/functionalize/possible_sharing.h"
#include "smelt/functionalize/program_inputs.h"
#include "smelt/functionalize/region_nodes.h"
#include "smelt/functionalize/scoped_set.h"
#include "smelt/functionalize/size_assertions.h"
#include "smelt/functionalize/walk_position.h"

namespace smelt {

// Returns whether it is a view operator, other than the pure form's own.
bool IsViewOp(OpName op);
// Returns whether it is a list of tensors, some of which may be None.
bool IsTensorList(const Type& t);
// Returns whether values of the type are tensors, or may hold some.
bool HoldsTensors(const Type& t);

struct ProgramWalk {
  struct CachedView {
    ValueId version;
    Type type;  // of the view: its geometry without the offset
    Expr offset;
    ValueId view;
    int home = -1;
  };

  // The way in which a node is processed, by its operator.
  enum class Step {
    kNone,
    kConstruct,
    kUnpack,
    kElement,
    kIf,
    kLoop,
    kInPlaceView,
    kSet,
    kResize,
    kView,
    kWrite,
    kCheckApart,
    kPure,
    kUnknown,
  };
  // The operands and results of the last pure node made for a writing operator.
  struct Inferred {
    std::vector<ValueId> operands;
    std::vector<Type> operand_types, types;
  };
  // An operator of the program, looked up once.
  struct Operator {
    Step step = Step::kUnknown;
    bool absolute = false;  // addresses its storage from the first element: as_strided, set_, resize_
    bool resolves = false;  // resolve_conj, resolve_neg
    const FunctionSchema* schema = nullptr;
    std::unique_ptr<FunctionalCounterpart> counterpart;  // of kWrite, when first needed
    Inferred inferred;
  };
  Operator& OperatorOf(OpName op);

  // The results of the last few views of constants: an unrolled loop needs the same ones repeatedly.
  struct KnownView {
    OpName op;
    TensorId base = -1;
    absl::InlinedVector<ValueId, 4> inputs;
    SymbolicGeometry geometry;
  };
  ProgramWalk(Graph& g, const FunctionalizeOptions& options)
      : g(g), options(options), regions(g, at), assertions(g, at) {}

  // Names an operator at the walk's position.
  absl::Status At(OpName op, absl::Status s) const;

  MemoryId NewMemory(MemoryState m);
  TensorId NewTensor(MemoryId m, SymbolicGeometry geometry, int home = -1);
  void BindFresh(ValueId v);
  absl::StatusOr<TensorId> TensorOf(ValueId v) const;
  // Drops cached views that were made inside a block, since they do not dominate the code after it. `mark` is
  // cache_log's size before the block; with 0 those of the outer blocks are dropped too.
  void DropCachedViewsSince(size_t mark);

  // --- memories that are one if sizes are 1 ---
  void ShareAtOne(MemoryId a, MemoryId b, const std::vector<std::string>& symbols);
  // Notes the memories that a write to `id` also changes if sizes are 1, and the calls in which that would be visible.
  void NoteWriteAtOne(MemoryId id);
  void ReadAtOne(const MemoryState& m) { result.at_least_two.insert(m.stale_at_one.begin(), m.stale_at_one.end()); }
  void ExpectAtLeastTwo(const std::vector<std::string>& symbols);

  Graph& g;
  const FunctionalizeOptions& options;
  FunctionalizeResult result;
  MemoryTable memories;
  PossibleSharing sharing;
  std::vector<TensorState> tensors;
  IdMap<ValueId, TensorId> tensor_of;
  absl::flat_hash_map<ValueId, std::vector<ValueId>> lists;          // prim::ListConstruct
  absl::flat_hash_map<ValueId, std::vector<TensorId>> tensor_lists;  // lists of views
  IdMap<ValueId, bool> own;                                          // made here, layout free to choose
  ProgramInputs inputs;
  absl::flat_hash_set<MemoryId> shared_states;  // memories that several states show
  // The pairs of written and read tensors that have run-time checks: for expanded memory, partial overlap and overlap.
  using Check = std::tuple<TensorId, TensorId, OperandSharing>;
  ScopedSet<Check> checked;
  absl::flat_hash_map<OpName, std::unique_ptr<Operator>> operators;
  bool absolute_access = false;
  absl::flat_hash_map<MemoryId, Expr> copies_begin;  // for copies of a storage: the begin of the copied tensor
  std::vector<KnownView> known_views = std::vector<KnownView>(256);
  absl::flat_hash_map<MemoryId, std::vector<CachedView>> view_cache;
  std::vector<MemoryId> cache_log;  // the memory whose cache each view was added to
  WalkPosition at;
  RegionNodes regions;
  SizeAssertions assertions;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_PROGRAM_WALK_H_
