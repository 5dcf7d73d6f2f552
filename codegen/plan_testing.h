// For tests: the parts of a plan over a graph given as text, whose arguments are distinct tensors, and whose outputs are
// fresh.
//
//   PlanParts plan(R"(graph(%x : ...): ...)");
//   plan.slots.BindInputs();
#ifndef SMELT_CODEGEN_PLAN_TESTING_H_
#define SMELT_CODEGEN_PLAN_TESTING_H_

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/plan_copies.h"
#include "smelt/codegen/plan_destinations.h"
#include "smelt/codegen/plan_kernels.h"
#include "smelt/codegen/plan_lives.h"
#include "smelt/codegen/plan_lowering.h"
#include "smelt/codegen/plan_numbers.h"
#include "smelt/codegen/plan_regions.h"
#include "smelt/codegen/plan_slots.h"
#include "smelt/codegen/plan_steps.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

struct PlanParts {
  explicit PlanParts(const std::string& text)
      : graph(Parsed(text)),
        convention(Simple(*graph)),
        tables(*graph, std::make_shared<KernelTable>(), std::make_shared<StorageTable>()),
        lives(*graph),
        regions(*graph, lives),
        steps(*graph, plan),
        slots(tables, *graph, convention, plan, regions, steps),
        copies(slots, steps),
        lowering(*graph, options, lives, slots),
        parts{lives, regions, steps, slots, copies, lowering},
        destinations(tables, *graph, convention, plan, parts),
        numbers(tables, *graph, steps, slots),
        kernels(tables, *graph, plan, parts, destinations, numbers) {
    steps.Enter(steps.NewBlock());
  }

  ValueId Find(const char* name) const { return graph->FindValue(name); }
  size_t NumSteps() const { return plan.blocks[0]->steps.size(); }

  std::unique_ptr<Graph> graph;
  Convention convention;
  BundleTables tables;
  BundleBuilder::PlanOptions options;
  fb::PlanT plan;
  Lives lives;
  PlanRegions regions;
  PlanSteps steps;
  PlanSlots slots;
  PlanCopies copies;
  PlanLowering lowering;
  PlanDestinations::Parts parts;
  PlanDestinations destinations;
  PlanNumbers numbers;
  PlanKernels kernels;

 private:
  static std::unique_ptr<Graph> Parsed(const std::string& text) {
    auto g = ParseGraph(text);
    EXPECT_TRUE(g.ok()) << g.status();
    return g.ok() ? *std::move(g) : std::make_unique<Graph>();
  }
  static Convention Simple(const Graph& g) {
    Convention c;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      c.duplicates.inner_of_outer.emplace_back(static_cast<int>(i));
      c.overlaps.memory_of.emplace_back(static_cast<int>(i));
    }
    c.overlaps.num_memories = c.overlaps.num_argument_memories = static_cast<int>(g.inputs().size());
    for (size_t k = 0; k < g.outputs().size(); ++k) {
      OutputInfo out;
      out.contents = GraphOutputIndex(static_cast<int>(k));
      c.outputs.outputs.push_back(out);
    }
    return c;
  }
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_TESTING_H_
