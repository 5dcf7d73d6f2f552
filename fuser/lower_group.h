// Turns a group of the pure graph into a kernel: its computation (KernelSpec) and the addresses of its operands in a
// launch.
//
// A group is a node `smelt::FusionGroup` (attribute "Subgraph"), or any single node that is a kernel by itself.
// Operands are values outside of the group. The caller gives the location of each: by default a value has its own
// memory, with its type's strides.
#ifndef SMELT_FUSER_LOWER_GROUP_H_
#define SMELT_FUSER_LOWER_GROUP_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

struct LoweredKernel {
  KernelSpec spec;
  std::vector<Expr> sizes;  // of the P+Q dims
  struct Param {
    ValueId value;  // an operand of the node, or one of its outputs
    bool is_output = false;
    int output = -1;            // which output of the node; several params may write one output (regions of it)
    Expr offset;                // elements of the param's dtype from the start of the value's memory
    std::vector<Expr> strides;  // elements, one per dim (P+Q); 0 where the class is kZero
  };
  std::vector<Param> params;  // parallel to spec.params
  struct Scalar {
    // Exactly one of: a constant, an expression over sizes, a value of the graph that is an int, float or bool.
    bool is_constant = false;
    double constant = 0;
    int64_t int_constant = 0;  // for integral dtypes
    bool is_expr = false;
    Expr expr;
    ValueId value;
  };
  std::vector<Scalar> scalars;  // parallel to spec.scalars
  Expr bytes;                   // moved by a launch, for dividing it among threads
};

// Returns the location of a value's contents: geometry (strides, offset in elements) of the value over the memory that
// it shares. For the result of smelt::write_region it is the location of the *whole* contents (those of its base).
using LayoutFn = std::function<SymbolicGeometry(ValueId)>;
SymbolicGeometry DefaultLayout(const Graph& g, ValueId v);  // its type's strides, offset 0

// Returns the region that the attributes of a smelt::view or smelt::write_region describe. CHECKs that they exist.
SymbolicGeometry RegionGeometry(const Node& n);

// Returns whether a node reads memory without a kernel: views, sizes, constants, lists.
bool IsTransparent(const Node& n);
// IsAction: in-place work of a library or of one operator. IsRegionOp: that, or a write of a region.
bool IsAction(const Node& n);
bool IsRegionOp(const Node& n);
// The operators that make a value by rewriting parts of another's contents, one after the other, the last one first,
// alone or in one fusion group. For other values there are none, and the base's id is invalid.
struct RegionWrites {
  std::vector<const Node*> nodes;
  ValueId base;  // the value of the graph into which the first of them writes
};
RegionWrites RegionWritesOf(const Graph& g, ValueId v);

// Unimplemented, with the op and its source, if the node is not a kernel.
absl::StatusOr<LoweredKernel> LowerGroup(const Graph& g, NodeId n, const LayoutFn& layout);
// Returns whether LowerGroup can do it alone (used to list unsupported operators before anything is compiled).
bool IsKernelNode(const Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUSER_LOWER_GROUP_H_
