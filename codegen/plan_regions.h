// Which part of which memory the values of a graph show and write: chains of region writes, views, and indexed writes
// through views (pages.view(-1, d)[slots] = rows).
//
// The graph of such a write copies the viewed part, writes into the copy, and puts that back. If nothing looks in
// between, all three are the memory itself: plan_destinations.h decides that.
//
// All queries are of the graph alone; nothing here depends on the plan, and nothing changes after construction.
#ifndef SMELT_CODEGEN_PLAN_REGIONS_H_
#define SMELT_CODEGEN_PLAN_REGIONS_H_

#include <optional>
#include <vector>

#include "smelt/codegen/plan_lives.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns the bytes from the storage's begin to the end of the geometry; 0 if it has no elements.
Expr BytesOf(const SymbolicGeometry& g);
// Returns whether the strides are the same wherever they matter.
bool SameLayout(const SymbolicGeometry& a, const SymbolicGeometry& b);
// Returns whether they have the same number of elements, of the same size.
bool SameElements(const SymbolicGeometry& a, const SymbolicGeometry& b);

class PlanRegions {
 public:
  // Both must outlive it.
  PlanRegions(const Graph& g, const Lives& lives) : g_(g), lives_(lives) {}

  // Returns the contents that `v` is a partial rewrite of, or an invalid id: v is the result of a smelt::write_region,
  // alone or in a group.
  ValueId BaseOf(ValueId v) const;
  // Returns `v`, its base, the base's base and so on: a chain of contents.
  std::vector<ValueId> ChainOf(ValueId v) const;
  // Returns whether some contents of the chain are needed after a later one has rewritten them; the later one is then a
  // copy.
  bool OutlivesRewrite(const std::vector<ValueId>& chain) const;
  // For a region write into memory that several arguments share, returns the argument that it counts from.
  std::optional<int> HomeOf(ValueId v) const;
  // Returns whether v is a view that leaves out some of its owner's bytes.
  bool ShowsAPart(ValueId v, ValueId owner) const;
  // Returns whether the node that makes `v` can write it anywhere.
  bool CanPlace(ValueId v) const;
  // Returns the view that v is a copy of, or an invalid id.
  ValueId ViewThatIsCopied(ValueId v) const;
  // Returns whether v's node writes at indices into its base, and nothing else into it.
  bool IsIndexedWrite(ValueId v) const;
  // Returns whether a node between the two positions reads v, or a view of it.
  bool IsReadBetween(ValueId v, int first, int last) const;

 private:
  const Graph& g_;
  const Lives& lives_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_REGIONS_H_
