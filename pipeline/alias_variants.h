// The kinds of calls for which a bundle has plans, besides calls with distinct arguments of the exported layout.
#ifndef SMELT_PIPELINE_ALIAS_VARIANTS_H_
#define SMELT_PIPELINE_ALIAS_VARIANTS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/pipeline/size_one_calls.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// One kind of call.
struct Variant {
  fb::VariantKind kind = fb::VariantKind::Distinct;
  // Returns the layouts of the results for arguments with other strides, if they can be observed; null if there is no
  // such rule.
  std::function<const std::vector<int64_t>*()> result_rule;
  FunctionalizeOptions functionalize;
  BundleBuilder::PlanOptions plan;
};

// Returns whether the convention changes an argument's or a state's memory or geometry.
bool Mutates(const Convention& c);

// Returns whether a result reveals the layout of an argument, which a plan for the exported strides cannot know.
bool ReturnsViews(const Convention& c);

// Returns whether all returned tensors are in new memory, and nothing else can be observed of the call.
bool ReturnsNewMemoryOnly(const Convention& c);

// Returns whether some node depends on the strides of an argument or a state, or on the position of bytes in its
// storage, so that a copy cannot replace it. A tensor that becomes another does not count.
bool StridesAreSeen(const Graph& g);

// Returns the user arguments that are tensors, by position, and all of the graph's weight storages.
std::vector<int> TensorArgs(const Graph& g);
std::vector<int> AllStorages(const Graph& g);

// Returns those that the plan for distinct arguments changes.
std::vector<int> WrittenArgs(const Graph& g, const Convention& distinct);
std::vector<int> WrittenStorages(const Graph& g, const Convention& distinct);

// Returns the arguments and storages that a program in eager order may change or hand out: all of them. If what keeps it
// from being compiled is an operator of the user's own, those that the alias database cannot rule out.
struct EagerWrites {
  std::vector<int> args, storages;
};
EagerWrites FindEagerWrites(const Graph& g);

// Returns one variant for each pair of arguments that can be one tensor and of which one is written, up to a fixed
// number.
std::vector<Variant> DuplicateVariants(const Graph& g, const Convention& distinct);

// Returns the variant for arguments that overlap in any way. Their strides are the caller's if no decision of the graph
// (is reshape a view?) depends on them. Otherwise the variant assumes only that the dims have the exported order in
// memory, since the order decides the layout of results. Dims of one element of `strides_of_ones` have the exported
// strides.
Variant OverlapVariant(const Graph& g, const OpenedComposites& opened, const Convention& distinct,
                       const std::vector<int>& strides_of_ones);

// Returns how a plan for the exported strides treats arguments with other strides.
fb::OtherStrides OtherStridesOf(const Graph& opened_graph, const OpenedComposites& opened, const Convention& c);

// Adds the guards of the plan for calls in which none of the sets of sizes is all 1; or, if `ones` are given, for calls
// in which these sizes are 1, and no other size is 1 that would give another program. A size of 0 does not count as 1,
// because an empty tensor has no visible layout.
void AddSizeGuards(const SizeOneCalls& of_one, const std::set<std::string>& ones, Variant& v);

}  // namespace smelt

#endif  // SMELT_PIPELINE_ALIAS_VARIANTS_H_
