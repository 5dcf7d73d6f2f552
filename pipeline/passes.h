// The passes of the compiler, in order. No other file knows the order.
//
//   PassContext context;
//   context.Get<FuseOptions>().explain = true;
//   SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kPure, PassGroup::kFuse}).Run(graph, context));
//   context.Get<FusionReport>().edges;
//
// The header of a pass describes what it reads from the context and leaves there.
#ifndef SMELT_PIPELINE_PASSES_H_
#define SMELT_PIPELINE_PASSES_H_

#include <initializer_list>

#include "smelt/core/pass/pass_pipeline.h"

namespace smelt {

// Sections of the order. A caller may start at any of them with a graph in the form that the earlier passes leave.
enum class PassGroup {
  kScript,  // a program as text gets types; an archive's reader already gives the resulting form
  kOpen,    // afterwards every node's schema states its effects on memory
  kPure,    // afterwards no node writes
  kExpand,  // afterwards each node is a kernel or a library call
  kFuse,    // nodes become groups, one kernel each
  kLayout,  // separate values in the layouts that their readers need
};

// The passes of these groups, in the compiler's order.
PassPipeline PassesOf(std::initializer_list<PassGroup> groups);

// All passes. A program with types runs all but PassGroup::kScript.
PassPipeline AllPasses();
PassPipeline CompilePasses();

}  // namespace smelt

#endif  // SMELT_PIPELINE_PASSES_H_
