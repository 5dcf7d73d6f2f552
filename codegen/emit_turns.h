// Rows whose last loop runs one row behind the others.
//
// A row's sum is many additions side by side, and then a few that wait for each other; the code behind waits for these.
// So the last loop runs one row behind the others: the machine executes it while it waits. It takes turns with the loop
// before it, a block of elements each, so that one computes while the other's stores are on their way. This happens
// only if the nearest cache holds both rows. Otherwise a row is finished before the next begins, in a turn of its own.
//
// Invariants: between the parts of a turn, the values and the position of its two rows are in variables (KeptRow).
#ifndef SMELT_CODEGEN_EMIT_TURNS_H_
#define SMELT_CODEGEN_EMIT_TURNS_H_

#include <functional>
#include <optional>
#include <vector>

#include "smelt/codegen/emit_row_loops.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/loop_parts.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

// The values and places of a row, kept in variables from one part of a loop's body to another, or to the next turn.
class KeptRow {
 public:
  // Allocates the values of phases before `end`, of which only `wanted` ones are kept.
  KeptRow(KernelFunction& fn, const Schedule& plan, Values& values, size_t end, const std::vector<bool>* wanted);
  void Keep(const LoopContext& ctx);
  // Restores the values that were kept, by code before or behind this; others are null. Returns the row's position.
  LoopContext Restore(const LoopContext& ctx);

 private:
  using Variables = std::vector<llvm::AllocaInst*>;

  void Store(const std::vector<llvm::Value*>& values, const Variables& to);
  std::vector<llvm::Value*> Load(const Variables& from);

  KernelFunction& fn_;
  Values& values_;
  Variables kept_, addr_, scratch_, idx_;  // null for what is not kept
};

class TurnEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Value = llvm::Value;

 public:
  TurnEmitter(KernelFunction& fn, const Schedule& plan, const RowPlan& rows, const LaunchWords& words, Values& values,
              LoopParts& parts);

  // `start` sets up the values of a row, and returns its position.
  void Emit(const LoopContext& ctx, const RowsAhead& ahead,
            const std::function<LoopContext(const LoopContext&, Value*)>& start);

 private:
  // Returns the values that the last loop and the code after it take.
  std::vector<bool> TakenFromBefore() const;
  // Chooses block_, behind_ and ahead_.
  void ChooseBlock(const RowsAhead& ahead);
  // Emits one turn of both loops; `front` and `back`: whether there is a row for each.
  void EmitTurn(const LoopContext& ctx, Value* front, Value* back, const std::function<LoopContext()>& start);
  void EmitBlock(const LoopContext& ctx, Value* from, Value* front, Value* back);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  Values& values_;
  LoopParts& parts_;
  RowLoopEmitter row_loops_;
  size_t last_, before_;  // the phases of the last loop, and of the one before it
  RowLoop front_loop_, back_loop_;
  Value* block_ = nullptr;   // elements of a turn
  Value* behind_ = nullptr;  // whether the last loop runs behind
  Value* rows_behind_ = nullptr;
  RowsAhead ahead_;
  AllocaInst* head_ = nullptr;  // elements before the first aligned place of what the last loop writes
  std::optional<KeptRow> front_, back_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_TURNS_H_
