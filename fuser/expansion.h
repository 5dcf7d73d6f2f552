// A graph while its composites are expanded (expand_composites.h), and the edits that the steps have in common. New
// nodes have the source line of the node that is expanded. Internal to the fuser.
#ifndef SMELT_FUSER_EXPANSION_H_
#define SMELT_FUSER_EXPANSION_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The outcome of a step at a node.
enum class ExpansionStep { kKeep, kChanged, kUnsupported };

class Expansion {
 public:
  explicit Expansion(Graph& g) : g_(g) {}

  Graph& graph() const { return g_; }
  const std::shared_ptr<const SourceLocation>& source() const { return source_; }
  void set_source(std::shared_ptr<const SourceLocation> source) { source_ = std::move(source); }

  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  ValueId Out(NodeId n) const { return g_.node(n).outputs[0]; }

  // These erase the node.
  void ReplaceWith(NodeId n, ValueId v);
  void ReplaceList(NodeId n, const std::vector<ValueId>& elements);

  // --- views ---
  // Returns the geometry of a value over its storage; views of top-level states are absolute in theirs.
  SymbolicGeometry GeometryOf(ValueId v) const;
  NodeId InsertView(NodeId anchor, ValueId base, const SymbolicGeometry& geometry);
  NodeId InsertRegionNode(NodeId anchor, absl::string_view op, std::vector<ValueId> inputs, Type type,
                          const SymbolicGeometry& g);
  // Returns the base for a view that shows all of its base unchanged.
  ValueId Shown(NodeId anchor, ValueId base, const SymbolicGeometry& v);

  // --- copies ---
  ValueId Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  ValueId Copied(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  // Returns a value that can be the base of a partial rewrite: all of its memory's contents, in the given layout. A
  // view is copied.
  ValueId Whole(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  ValueId Cast(NodeId anchor, ValueId v, DType to);
  ValueId IntList(NodeId anchor, const std::vector<Expr>& sizes);
  ValueId Empty(NodeId anchor, const TensorType& t);

 private:
  Graph& g_;
  std::shared_ptr<const SourceLocation> source_;
};

}  // namespace smelt

#endif  // SMELT_FUSER_EXPANSION_H_
