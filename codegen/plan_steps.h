// The steps of a plan while they are written: the block that takes the next step, the registers that hold numbers, and
// the position in the graph that the plan has come to.
//
//   steps.MoveTo(lives.Begin(node));
//   steps.Emit(std::move(launch), node);
//
// Invariants: a step is never moved or taken away once it is emitted. Registers are numbered in the order in which they
// are asked for, each once. The position is one of Lives.
#ifndef SMELT_CODEGEN_PLAN_STEPS_H_
#define SMELT_CODEGEN_PLAN_STEPS_H_

#include <memory>
#include <utility>

#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class PlanSteps {
 public:
  // Both must outlive it.
  PlanSteps(const Graph& g, fb::PlanT& plan) : g_(g), plan_(plan) {}

  template <typename T>
  void Emit(std::unique_ptr<T> step, NodeId source = NodeId()) {
    auto out = std::make_unique<fb::StepT>();
    out->step.Set(std::move(*step));
    if (g_.IsLive(source) && g_.node(source).source) out->source = g_.node(source).source->ToString();
    plan_.blocks[block_]->steps.push_back(std::move(out));
  }
  void Allocate(int slot);

  int NewBlock();
  int block() const { return block_; }
  void Enter(int block) { block_ = block; }

  int NewRegister() { return num_registers_++; }
  int num_registers() const { return num_registers_; }

  int position() const { return position_; }
  void MoveTo(int position) { position_ = position; }

  PlanStats stats;

 private:
  const Graph& g_;
  fb::PlanT& plan_;
  int block_ = 0;
  int position_ = 0;
  int num_registers_ = 0;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_STEPS_H_
