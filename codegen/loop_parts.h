// The emitters of loops and their bodies, over one schedule.
#ifndef SMELT_CODEGEN_LOOP_PARTS_H_
#define SMELT_CODEGEN_LOOP_PARTS_H_

#include "smelt/codegen/emit_instrs.h"
#include "smelt/codegen/emit_loops.h"
#include "smelt/codegen/emit_nests.h"
#include "smelt/codegen/emit_prefetches.h"
#include "smelt/codegen/emit_reductions.h"

namespace smelt {

struct LoopParts {
  LoopParts(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values)
      : reductions(fn, plan, words, values),
        instrs(fn, plan, words, values, reductions),
        nests(fn, plan, words),
        loops(fn, plan, words, values, instrs),
        prefetches(fn, plan, words) {}

  ReductionEmitter reductions;
  InstrEmitter instrs;
  NestEmitter nests;
  LoopEmitter loops;
  PrefetchEmitter prefetches;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOOP_PARTS_H_
