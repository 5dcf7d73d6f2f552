// Edits of a graph with their inverses: undo to any mark. Listeners of the graph, above all the alias database, follow
// both ways.
//
//   Editor edit(graph);
//   Editor::Mark mark = edit.mark();
//   edit.ReplaceAllUses(a, b);
//   edit.Erase(n);
//   edit.UndoTo(mark);            // as it was; n is back under another id: edit.Current(n)
//
// Only edits through the editor can be undone. Other edits in between must not touch what these touched, the subgraphs
// of groups included. An erased node's id stays stale after undo, as ids are never used twice; Current() returns the id
// that stands for it now. Each edit and its inverse cost what they touch.
#ifndef SMELT_ALIAS_EDITOR_H_
#define SMELT_ALIAS_EDITOR_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class Editor {
 public:
  explicit Editor(Graph& g);
  ~Editor();
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  using Mark = size_t;
  Mark mark() const { return journal_.size(); }
  void UndoTo(Mark m);
  void Forget();  // makes the edits permanent; marks are no longer valid

  NodeId InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types,
                      Graph::Attributes attributes = {});
  void Erase(NodeId n);  // as Graph::Erase; blocks inside go too
  void SetInput(NodeId n, uint32_t index, ValueId v);
  void SetOp(NodeId n, OpName op);
  void ReplaceAllUses(ValueId from, ValueId to);
  void MoveBefore(NodeId n, NodeId anchor);
  void MoveAfter(NodeId n, NodeId anchor);

  // Replaces an If or smelt::cond by the nodes of its block k. Its outputs become the block's results.
  absl::Status InlineBlock(NodeId n, int k);
  // Turns nodes of one block, in program order and without others between them, into one node with the attribute
  // "Subgraph". Its inputs are the outside values that they use, its outputs the values that are used outside, both in
  // order of appearance.
  absl::StatusOr<NodeId> Group(absl::Span<const NodeId> nodes, OpName op);
  // Reverses Group: the nodes of n's subgraph replace it.
  absl::Status TakeApart(NodeId n);

  NodeId Current(NodeId n) const;
  ValueId Current(ValueId v) const;
  BlockId Current(BlockId b) const;

 private:
  // A past edit: the data for its inverse. Larger data is on the stacks below, in the same order.
  struct Done {
    enum Kind : uint8_t { kInserted, kErased, kInput, kOp, kMoved, kGrouped } kind;
    bool is_return = false;  // kInput: of a block's return node, which is identified by its block
    uint32_t index = 0;      // kInput: the index; kGrouped: the begin of its nodes in grouped_nodes_
    uint32_t values = 0;     // kGrouped: the begin of its results in grouped_values_
    NodeId node;
    BlockId block;  // its old place: its block, and the node after it
    NodeId next;
    ValueId old;  // kInput
    OpName op;    // kOp: the old operator
  };
  // The contents of an erased node, its blocks included.
  struct Saved;
  Saved Save(NodeId n) const;
  void Restore(const Saved& s, BlockId block, NodeId next);
  void Ungroup(const Done& done);
  void RecordMove(NodeId n);

  Graph& g_;
  std::vector<Done> journal_;
  std::vector<Saved> erased_;
  // The ids of groups' nodes and of their results. Everything else about them is in the groups' subgraphs.
  std::vector<NodeId> grouped_nodes_;
  std::vector<ValueId> grouped_values_;
  absl::flat_hash_map<NodeId, NodeId> nodes_;
  absl::flat_hash_map<ValueId, ValueId> values_;
  absl::flat_hash_map<BlockId, BlockId> blocks_;
};

}  // namespace smelt

#endif  // SMELT_ALIAS_EDITOR_H_
