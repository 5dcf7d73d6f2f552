// The passes of the compiler, in order. No other file knows the order.
//
//   PassContext context;
//   context.Get<FuseOptions>().explain = true;
//   SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kPure, PassGroup::kFuse}).Run(graph, context));
//   context.Get<FusionReport>().edges;
//
// A pass's own header says what it reads from the context and what it leaves there.
#ifndef SMELT_PIPELINE_PASSES_H_
#define SMELT_PIPELINE_PASSES_H_

#include <initializer_list>

#include "smelt/core/pass/pass_pipeline.h"

namespace smelt {

// Sections of the order. A caller may enter at any of them with a graph that is as the earlier passes would have left
// it.
enum class PassGroup {
  kScript,  // a program as text becomes a program with types; an archive's reader leaves its graph so
  kOpen,    // every node tells the truth about memory afterwards
  kPure,    // no node writes afterwards
  kExpand,  // each node is a kernel or a library call afterwards
  kFuse,    // nodes become groups, one kernel each
  kLayout,  // values of their own that lie where their readers want them
};

// The passes of these groups, in the compiler's order.
PassPipeline PassesOf(std::initializer_list<PassGroup> groups);

// All passes. A program with types goes through all but PassGroup::kScript.
PassPipeline AllPasses();
PassPipeline CompilePasses();

}  // namespace smelt

#endif  // SMELT_PIPELINE_PASSES_H_
