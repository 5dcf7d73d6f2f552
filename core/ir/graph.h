// The graph: SSA values, nodes in ordered blocks, blocks inside nodes (If, Loop, cond, while_loop). Owns everything in arenas;
// ids are generational, so an id of something erased is detected, never dangling.
//
//   Graph g;
//   ValueId x = g.AddInput("x", Type::Tensor(DType::kFloat32, {4}));
//   NodeId n = g.Append(g.top(), OpName::Get("aten::relu"), {x}, {Type::Tensor(DType::kFloat32, {4})});
//   g.AddOutput(g.node(n).outputs[0]);
//
// Conventions:
// - A block has a parameter node (op prim::Param; its outputs are the block's parameters) and a return node (op prim::Return;
//   its inputs are the block's results). Both exist from the block's creation; neither is in the node list.
// - An argument that is a constant is a value made by `prim::Constant` with the attribute "value" (none: no attribute).
// - Arguments are in the order of the operator's schema, **all** of them, defaults filled in (as TorchScript has them).
// - Every edit goes through Graph, which tells the listeners. Order within a block is a label: IsBefore is O(1).
// - Ids are handed out deterministically; printing and iteration are in program order.
// Not thread-safe.
#ifndef SMELT_CORE_IR_GRAPH_H_
#define SMELT_CORE_IR_GRAPH_H_

#include <cstdint>
#include <complex>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/base/strong_id.h"
#include "smelt/core/ir/op_name.h"
#include "smelt/core/ir/type.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

class Graph;
using ValueId = StrongId<struct ValueTag>;
using NodeId = StrongId<struct NodeTag>;
using BlockId = StrongId<struct BlockTag>;

// An attribute. Tensors are held by handle (a small constant); weights are not attributes, see Weight.
using Attribute = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>, std::vector<bool>,
                               std::vector<std::string>, Expr, std::vector<Expr>, Tensor, Type, std::shared_ptr<Graph>,
                               std::complex<double>>;

struct Use {
  NodeId user;
  uint32_t index;  // which input of the user
};

struct Value {
  std::string name;  // without %, unique in its graph
  Type type;
  NodeId def;               // the node that makes it (a block's parameter: the block's param node)
  uint32_t def_index = 0;
  std::vector<Use> uses;    // in no particular order
  // The value of an int that is known as an expression over symbols (a constant, a size, arithmetic on sizes).
  std::optional<Expr> expr;
};

// Where in the model's source a node comes from, for error messages.
struct SourceLocation {
  std::string file;  // "model.py"
  int line = 0;
  std::string text;  // the innermost line of source, if known
  std::string ToString() const;  // "model.py:41", or "" if unknown
};

struct Node {
  OpName op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<BlockId> blocks;
  std::vector<std::pair<std::string, Attribute>> attributes;  // sorted by name
  BlockId parent;
  NodeId prev, next;       // neighbours in the parent's list; invalid at its ends
  uint64_t order = 0;      // the order-maintenance label
  std::shared_ptr<const SourceLocation> source;

  const Attribute* FindAttribute(absl::string_view name) const;
};

struct Block {
  NodeId owner;  // invalid for the top block
  NodeId param_node, return_node;
  NodeId first, last;
};

// A parameter, buffer or tensor constant. Several may share one storage (tied weights, a buffer and a view of it).
struct Weight {
  enum class Kind { kParameter, kBuffer, kConstant };
  std::string name;  // "layer.weight"
  Kind kind = Kind::kParameter;
  int storage = 0;  // index into Graph::weight_storages
  DType dtype = DType::kFloat32;
  Geometry geometry;
};

// What a top-level input is: a user's argument, or a weight (state) that the caller does not pass.
struct InputInfo {
  enum class Kind { kUser, kWeight };
  Kind kind = Kind::kUser;
  int weight = -1;  // index into Graph::weights
  // A user's argument whose value was baked in at export: the caller must pass this very value.
  bool is_constant = false;
  Attribute constant;
};

// Told of every edit, after it happened unless it says otherwise. Keep a listener registered only as long as it lives.
class GraphListener {
 public:
  virtual ~GraphListener() = default;
  virtual void OnNodeInserted(NodeId) {}
  virtual void OnNodeErasing(NodeId) {}                                     // before; its outputs have no uses
  virtual void OnNodeMoved(NodeId, BlockId /*old_parent*/) {}
  virtual void OnInputChanged(NodeId, uint32_t /*index*/, ValueId /*old*/) {}  // also inputs added (old invalid)
  virtual void OnInputRemoved(NodeId, uint32_t /*index*/, ValueId /*old*/) {}
  virtual void OnOutputAdded(NodeId, uint32_t /*index*/) {}                 // block parameters too
  virtual void OnOutputErasing(NodeId, uint32_t /*index*/) {}
  virtual void OnBlockAdded(NodeId, BlockId) {}
  virtual void OnTypeChanged(ValueId) {}
};

class Graph {
 public:
  Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();
  std::unique_ptr<Graph> Clone() const;  // ids are kept

  std::string name = "main";
  // The calling surface.
  std::vector<Weight> weights;
  std::vector<std::shared_ptr<Storage>> weight_storages;
  std::vector<InputInfo> input_infos;      // parallel to inputs()
  std::vector<std::string> output_names;   // parallel to outputs()
  SymbolRanges symbols;                    // ranges of the size symbols
  absl::flat_hash_map<std::string, int64_t> symbol_hints;  // the sizes of the example that was exported

  // --- reading ---
  BlockId top() const { return top_; }
  bool IsLive(ValueId v) const;
  bool IsLive(NodeId n) const;
  const Value& value(ValueId v) const;   // CHECKs that the id is live
  const Node& node(NodeId n) const;
  const Block& block(BlockId b) const;
  absl::Span<const ValueId> inputs() const { return node(block(top_).param_node).outputs; }
  absl::Span<const ValueId> outputs() const { return node(block(top_).return_node).inputs; }
  absl::Span<const ValueId> params(BlockId b) const { return node(block(b).param_node).outputs; }
  absl::Span<const ValueId> results(BlockId b) const { return node(block(b).return_node).inputs; }
  bool IsParam(NodeId n) const;    // is a block's param node
  bool IsReturn(NodeId n) const;
  ValueId FindValue(absl::string_view name) const;  // invalid if there is none
  // a before b in their common block; both must be in one block. O(1). Param nodes are before, return nodes after all others.
  bool IsBefore(NodeId a, NodeId b) const;
  std::vector<NodeId> Nodes(BlockId b) const;   // in order, without blocks inside
  std::vector<NodeId> AllNodes() const;         // pre-order, blocks' nodes included
  int64_t num_nodes() const { return live_nodes_; }  // without param and return nodes

  // --- editing ---
  ValueId AddInput(absl::string_view name, Type type, InputInfo info = {});
  void AddOutput(ValueId v, absl::string_view name = "");
  void SetOutput(int index, ValueId v);
  NodeId Append(BlockId b, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types);
  NodeId InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types);
  NodeId InsertAfter(NodeId anchor, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types);
  BlockId AddBlock(NodeId n);
  ValueId AddParam(BlockId b, Type type, absl::string_view name = "");
  void AddResult(BlockId b, ValueId v);
  void EraseParam(BlockId b, int index);   // without uses
  void EraseResult(BlockId b, int index);
  ValueId AddNodeOutput(NodeId n, Type type, absl::string_view name = "");
  void EraseNodeOutput(NodeId n, int index);  // without uses
  void SetInput(NodeId n, uint32_t index, ValueId v);
  void AddNodeInput(NodeId n, ValueId v);
  void RemoveInput(NodeId n, uint32_t index);
  void ReplaceAllUses(ValueId from, ValueId to);
  void MoveBefore(NodeId n, NodeId anchor);  // also across blocks
  void MoveAfter(NodeId n, NodeId anchor);
  void MoveToEnd(NodeId n, BlockId b);
  void Erase(NodeId n);                      // CHECKs that its outputs have no uses; blocks inside go too
  void SetAttribute(NodeId n, absl::string_view name, Attribute value);
  void RemoveAttribute(NodeId n, absl::string_view name);
  void SetType(ValueId v, Type type);
  void SetExpr(ValueId v, std::optional<Expr> expr);
  void SetName(ValueId v, absl::string_view name);  // made unique with a suffix if taken
  void SetOp(NodeId n, OpName op);                  // arguments must fit; listeners see it as OnInputChanged of input 0
  void SetSource(NodeId n, std::shared_ptr<const SourceLocation> source);

  void AddListener(GraphListener* l);
  void RemoveListener(GraphListener* l);

 private:
  friend class GraphTestPeer;
  struct Impl;
  // Arenas, free lists, name table, order labels: see graph.cc.
  BlockId top_;
  int64_t live_nodes_ = 0;
  std::unique_ptr<Impl> impl_;
};

// --- constants -----------------------------------------------------------------------------------------------------------------

// A constant as prim::Constant holds it. Monostate is None.
using ConstantValue = std::variant<std::monostate, int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                                   std::vector<bool>, Tensor, std::complex<double>>;
// Makes a prim::Constant before `anchor` (a return node as anchor: at the block's end). Its Int outputs carry `expr`.
ValueId InsertConstant(Graph& g, NodeId anchor, const ConstantValue& v);
// The constant behind a value, if it is one.
std::optional<ConstantValue> GetConstant(const Graph& g, ValueId v);
// An integer known as constant or expression (prim::Constant, Value::expr).
std::optional<Expr> GetIntExpr(const Graph& g, ValueId v);
// The elements of a list value: made by prim::ListConstruct, or a constant list of ints (as exprs).
std::optional<std::vector<Expr>> GetIntListExpr(const Graph& g, ValueId v);
std::optional<std::vector<ValueId>> GetListElements(const Graph& g, ValueId v);  // of prim::ListConstruct

// Checks ids, uses, order labels, names, block structure, dominance; and, where op schemas are registered with the verifier
// (core/op), argument counts. An error names the node.
absl::Status VerifyGraph(const Graph& g);

}  // namespace smelt

#endif  // SMELT_CORE_IR_GRAPH_H_
