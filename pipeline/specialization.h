// The calls for which a plan of a bundle is compiled. A bundle holds one plan per specialization, besides the
// eager-order plan, which takes every call.
//
//   Specialization s = DistinctArguments();   // arguments that share no memory, in the exported layout
//   AddSizeGuards(of_one, s);
//   s.guards;                                 // the runtime runs the plan only if all of them hold
//
// Everything that the passes may assume of a call stands here, and only here. Passes that read less than that run once
// for all specializations that agree in it (pipeline/plans.cc).
#ifndef SMELT_PIPELINE_SPECIALIZATION_H_
#define SMELT_PIPELINE_SPECIALIZATION_H_

#include <set>
#include <string>
#include <vector>

#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/pipeline/argument_layouts.h"
#include "smelt/pipeline/size_one_calls.h"
#include "smelt/schema/bundle.h"

namespace smelt {

struct Specialization {
  using Guard = BundleBuilder::PlanOptions::Guard;

  // How the arguments may share memory.
  struct AliasPattern {
    DuplicatesLayer duplicates;      // the arguments that are one tensor; empty if there are none
    bool arguments_overlap = false;  // in any way
  };
  enum class ArgumentLayouts {
    kExported,
    kOrdered,  // those of dim_orders
    kAny,      // the strides are symbols
  };

  AliasPattern alias;
  std::set<std::string> unit_symbols;  // sizes that are 1
  ArgumentLayouts layouts = ArgumentLayouts::kExported;
  DimOrders dim_orders;
  // Further conditions on the sizes and the strides of a call.
  std::vector<Guard> guards;

  fb::VariantKind kind() const;
};

// Returns the options that the passes and the plan builder take from it.
FunctionalizeOptions FunctionalizeOptionsFor(const Specialization& s);
BundleBuilder::PlanOptions PlanOptionsFor(const Specialization& s);

Specialization DistinctArguments();

// Returns the specialization for arguments that share no memory and whose dims lie in memory in these orders, with any
// gaps between them. The other arguments have the exported strides. Arguments at the positions `may_repeat` may also
// repeat their elements along any dim but the innermost: a stride of 0, as of an expanded row.
Specialization OrderedArguments(const Graph& g, DimOrders orders, const std::vector<int>& may_repeat);

// Returns one specialization for each pair of arguments that can be one tensor and of which one is written. Returns
// none if the pairs are many: a few of them would be no likelier than the others, and the plan for arguments that
// overlap takes them all.
std::vector<Specialization> DuplicateArguments(const Graph& g, const Convention& distinct);

// Returns the specialization for arguments that overlap in any way. Their strides are the caller's if no decision of
// the graph (is reshape a view?) depends on them. Otherwise it assumes only that the dims have the exported order in
// memory, since the order decides the layout of results. Dims of one element of `strides_of_ones` have the exported
// strides.
Specialization OverlappingArguments(const Graph& g, const OpenedComposites& opened, const Convention& distinct,
                                    const std::vector<int>& strides_of_ones);

// Returns how a plan for the exported strides treats arguments with other strides.
fb::OtherStrides OtherStridesOf(const Graph& opened_graph, const OpenedComposites& opened, const Convention& c);

// Adds the guards against calls in which all of a set of sizes are 1; or, if the specialization has unit symbols,
// guards that these are 1, and no other size is 1 that would give another program. A size of 0 does not count as 1,
// because an empty tensor has no visible layout.
void AddSizeGuards(const SizeOneCalls& of_one, Specialization& s);

// Adds guards that these sizes are not 1: PyTorch then shares memory that the plan copies.
void AddSharingGuards(const std::set<std::string>& at_least_two, Specialization& s);

}  // namespace smelt

#endif  // SMELT_PIPELINE_SPECIALIZATION_H_
