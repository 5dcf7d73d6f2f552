// The graph: SSA values, nodes in ordered blocks, blocks inside nodes (If, Loop, cond, while_loop). It owns everything
// in arenas. Ids are generational, so the id of something erased is detected and never dangles.
//
//   Graph g;
//   ValueId x = g.AddInput("x", Type::Tensor(DType::kFloat32, {4}));
//   NodeId n = g.Append(g.top(), OpName::Get("aten::relu"), {x}, {Type::Tensor(DType::kFloat32, {4})});
//   g.AddOutput(g.node(n).outputs[0]);
//
// Conventions:
// - A block has a parameter node (op prim::Param; its outputs are the block's parameters) and a return node (op
//   prim::Return; its inputs are the block's results). Both exist from the block's creation; neither is in the node
//   list.
// - A constant argument is a value made by `prim::Constant` with the attribute "value" (None: without the attribute).
// - Arguments are in the order of the operator's schema, **all** of them, with defaults filled in (as in TorchScript).
// - Every edit goes through Graph, which notifies the listeners. The order within a block is a label: IsBefore is O(1).
// - Ids are given deterministically; printing and iteration are in program order.
//
// Not thread-safe.
#ifndef SMELT_CORE_IR_GRAPH_H_
#define SMELT_CORE_IR_GRAPH_H_

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/base/strong_id.h"
#include "smelt/core/ir/arena.h"
#include "smelt/core/ir/op_name.h"
#include "smelt/core/ir/type.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

class Graph;
using ValueId = StrongId<struct ValueTag>;
using NodeId = StrongId<struct NodeTag>;
using BlockId = StrongId<struct BlockTag>;

// The text of a constant whose value the text form did not contain: `<Tensor>`, a tuple, a dictionary, an object. Kept
// as written.
struct OpaqueAttribute {
  std::string text;
  bool operator==(const OpaqueAttribute& o) const { return text == o.text; }
};

// An attribute. Tensors are held by handle (a small constant); weights are not attributes, see Weight.
using Attribute = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>, Expr, std::vector<Expr>, Tensor, Type,
                               std::shared_ptr<Graph>, std::complex<double>, OpaqueAttribute>;

// A node's attributes, sorted by name. Copies share them: changing one leaves the others.
class Attributes {
 public:
  using Entry = std::pair<std::string, Attribute>;
  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries) : entries_(std::make_shared<std::vector<Entry>>(entries)) {}

  bool empty() const { return size() == 0; }
  size_t size() const { return entries_ == nullptr ? 0 : entries_->size(); }
  const Entry* begin() const { return entries_ == nullptr ? nullptr : entries_->data(); }
  const Entry* end() const { return begin() + size(); }
  const Entry& operator[](size_t i) const { return (*entries_)[i]; }
  const Entry& back() const { return entries_->back(); }

  void reserve(size_t n) { Own().reserve(n); }
  template <typename... Args>
  void emplace_back(Args&&... args) {
    Own().emplace_back(std::forward<Args>(args)...);
  }

 private:
  friend class Graph;
  std::vector<Entry>& Own();  // not shared
  std::shared_ptr<std::vector<Entry>> entries_;
};

struct Use {
  NodeId user;
  uint32_t index;  // which input of the user
};

struct Value {
  NodeId def;  // the node that makes it (a block's parameter: the block's param node)
  uint32_t def_index = 0;
  Type type;
  absl::InlinedVector<Use, 2> uses;  // in no particular order
  std::string name;                  // without %, unique in its graph; a number, unless it was given one
  // The value of an int that is known as an expression over symbols (a constant, a size, arithmetic on sizes).
  std::optional<Expr> expr;
};

// The place in the model's source that a node comes from, for error messages.
struct SourceLocation {
  std::string file;  // "model.py"
  int line = 0;
  int column = 0;
  std::string text;              // the innermost line of source, if known
  std::string ToString() const;  // "model.py:41", or "" if unknown
};

struct Node {
  OpName op;
  BlockId parent;
  uint64_t order = 0;  // the order-maintenance label; changes when others are inserted
  NodeId prev, next;   // neighbours in the parent's list; invalid at its ends
  absl::InlinedVector<ValueId, 3> inputs;
  absl::InlinedVector<ValueId, 2> outputs;
  absl::InlinedVector<BlockId, 2> blocks;
  Attributes attributes;
  absl::InlinedVector<uint32_t, 4> use_positions;  // where inputs[i] keeps this use in its Value::uses; Graph's own
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

// The kind of a top-level input: a user's argument, or a weight (state) that the caller does not pass.
struct InputInfo {
  enum class Kind { kUser, kWeight };
  Kind kind = Kind::kUser;
  int weight = -1;  // index into Graph::weights
  // A user's argument whose value was baked in at export: the caller must pass this value.
  bool is_constant = false;
  Attribute constant;
};

// Is notified of every edit, after it happened unless stated otherwise. Keep a listener registered only as long as it
// lives. Erasing a node with blocks calls OnNodeErasing first for the nodes inside, last node first (a block's return
// node loses its inputs through OnInputRemoved before), then for the node itself, with its inputs still there.
// Replacing uses, and several outputs of one edit, give one call each. A listener may not edit the graph.
class GraphListener {
 public:
  virtual ~GraphListener() = default;
  virtual void OnNodeInserted(NodeId) {}
  virtual void OnNodeErasing(NodeId) {}  // before; its outputs have no uses
  virtual void OnNodeMoved(NodeId, BlockId /*old_parent*/) {}
  virtual void OnInputChanged(NodeId, uint32_t /*index*/, ValueId /*old*/) {
  }  // also inputs added (old invalid), also SetOp
  virtual void OnInputRemoved(NodeId, uint32_t /*index*/, ValueId /*old*/) {}
  virtual void OnOutputAdded(NodeId, uint32_t /*index*/) {}  // block parameters too
  virtual void OnOutputErasing(NodeId, uint32_t /*index*/) {}
  virtual void OnBlockAdded(NodeId, BlockId) {}
  virtual void OnTypeChanged(ValueId) {}
  virtual void OnAttributeChanged(NodeId, absl::string_view /*name*/) {}  // set or removed
};

class Graph {
 public:
  Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();
  // Ids are kept; listeners are not. Subgraphs in attributes are cloned too. Tensors and weight storages are shared.
  std::unique_ptr<Graph> Clone() const;

  std::string name = "main";
  // The interface to the caller.
  std::vector<Weight> weights;
  // A storage without data() but with bytes() > 0: the contents are elsewhere (a graph read from text, which only
  // refers to them).
  std::vector<std::shared_ptr<Storage>> weight_storages;
  std::vector<InputInfo> input_infos;                      // parallel to inputs()
  std::vector<std::string> output_names;                   // parallel to outputs()
  SymbolRanges symbols;                                    // ranges of the size symbols
  absl::flat_hash_map<std::string, int64_t> symbol_hints;  // the sizes of the example that was exported
  // A condition under which the program was exported: a call whose sizes make the expression 0 is refused.
  struct SizeGuard {
    Expr holds;
    std::string text;  // as stated in the archive
  };
  std::vector<SizeGuard> size_guards;
  // Adds a guard, which `symbols` then know.
  void AddSizeGuard(SizeGuard guard);
  // True if inputs are written at the end, whenever the exported program wrote them, as in an archive after
  // run_decompositions(). The behaviour for inputs that share memory is lost.
  bool written_at_the_end = false;

  // --- reading ---
  BlockId top() const { return top_; }
  bool IsLive(ValueId v) const { return values_.IsLive(v); }
  bool IsLive(NodeId n) const { return nodes_.IsLive(n); }
  bool IsLive(BlockId b) const { return blocks_.IsLive(b); }
  // These CHECK that the id is live. The reference stays valid until its object is erased, whatever else is edited.
  const Value& value(ValueId v) const { return values_.Get(v); }
  const Node& node(NodeId n) const { return nodes_.Get(n); }
  const Block& block(BlockId b) const { return blocks_.Get(b); }
  absl::Span<const ValueId> inputs() const { return node(block(top_).param_node).outputs; }
  absl::Span<const ValueId> outputs() const { return node(block(top_).return_node).inputs; }
  absl::Span<const ValueId> params(BlockId b) const { return node(block(b).param_node).outputs; }
  absl::Span<const ValueId> results(BlockId b) const { return node(block(b).return_node).inputs; }
  bool IsParam(NodeId n) const;  // is a block's param node
  bool IsReturn(NodeId n) const;
  ValueId FindValue(absl::string_view name) const;  // invalid if there is none
  // Returns whether a comes before b; both must be in one block. O(1). Param nodes are before, return nodes after all
  // others.
  bool IsBefore(NodeId a, NodeId b) const;
  std::vector<NodeId> Nodes(BlockId b) const;        // in order, without blocks inside
  std::vector<NodeId> AllNodes() const;              // pre-order, blocks' nodes included
  int64_t num_nodes() const { return live_nodes_; }  // without param and return nodes
  // All indices of ids are below these bounds: sizes for side tables indexed by id.index.
  uint32_t value_index_bound() const { return values_.size(); }
  uint32_t node_index_bound() const { return nodes_.size(); }
  uint32_t block_index_bound() const { return blocks_.size(); }

  // --- editing ---
  // Inputs of an edit must be live; that they dominate their use is VerifyGraph's to check. Inserting costs O(inputs +
  // outputs) (the order label: amortised, O(log n) at worst), erasing and replacing what they touch.
  ValueId AddInput(absl::string_view name, Type type, InputInfo info = {});
  void AddOutput(ValueId v, absl::string_view name = "");
  void SetOutput(int index, ValueId v);
  NodeId Append(BlockId b, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types);
  NodeId InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types);
  NodeId InsertAfter(NodeId anchor, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types);
  // With attributes (in any order), which listeners see from the start.
  using Attributes = ::smelt::Attributes;
  NodeId Append(BlockId b, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types,
                Attributes attributes);
  NodeId InsertBefore(NodeId anchor, OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types,
                      Attributes attributes);
  BlockId AddBlock(NodeId n);
  ValueId AddParam(BlockId b, Type type, absl::string_view name = "");
  void AddResult(BlockId b, ValueId v);
  void EraseParam(BlockId b, int index);  // without uses
  void EraseResult(BlockId b, int index);
  ValueId AddNodeOutput(NodeId n, Type type, absl::string_view name = "");
  void EraseNodeOutput(NodeId n, int index);  // without uses
  void SetInput(NodeId n, uint32_t index, ValueId v);
  void AddNodeInput(NodeId n, ValueId v);
  void RemoveInput(NodeId n, uint32_t index);
  void ReplaceAllUses(ValueId from, ValueId to);  // from == to: nothing; `to`'s own node is replaced in as well
  void MoveBefore(NodeId n, NodeId anchor);       // also across blocks
  void MoveAfter(NodeId n, NodeId anchor);
  void MoveToEnd(NodeId n, BlockId b);
  void Erase(NodeId n);  // CHECKs that its outputs have no uses; blocks inside go too
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
  struct Names;  // the table from names to values
  NodeId NewNode(OpName op, absl::Span<const ValueId> inputs, absl::Span<const Type> output_types);
  BlockId NewBlock(NodeId owner);
  ValueId NewValue(NodeId def, uint32_t index, Type type, absl::string_view name);
  void FreeValue(ValueId v);
  void FreeBlock(BlockId b);
  // Links n into b right before `next` (invalid: at the end) and gives it a label.
  void Link(NodeId n, BlockId b, NodeId next);
  void Unlink(NodeId n);
  uint64_t MakeLabel(NodeId prev, NodeId next);
  void Relabel(NodeId around);
  void AddUse(NodeId n, ValueId v);
  void DropUse(NodeId n, uint32_t index);
  void EraseOne(NodeId n);
  void MoveTo(NodeId n, BlockId b, NodeId next);
  NodeId InsertNode(BlockId b, NodeId next, OpName op, absl::Span<const ValueId> inputs,
                    absl::Span<const Type> output_types, Attributes attributes = {});
  template <typename F>
  void Notify(const F& f) const {
    for (GraphListener* l : listeners_) f(l);
  }

  Arena<Value, ValueId> values_;
  Arena<Node, NodeId> nodes_;
  Arena<Block, BlockId> blocks_;
  std::unique_ptr<Names> names_;
  std::vector<GraphListener*> listeners_;
  BlockId top_;
  int64_t live_nodes_ = 0;
};

// --- constants
// -----------------------------------------------------------------------------------------------------------------

// The value of a constant as prim::Constant holds it. Monostate is None.
using ConstantValue = std::variant<std::monostate, int64_t, double, bool, std::string, std::vector<int64_t>,
                                   std::vector<double>, std::vector<bool>, Tensor, std::complex<double>>;
// Makes a prim::Constant before `anchor` (a return node as anchor: at the block's end). Its Int outputs carry `expr`.
ValueId InsertConstant(Graph& g, NodeId anchor, const ConstantValue& v);
// Makes an int with the value of `e` before `anchor` (smelt::size).
ValueId InsertSize(Graph& g, NodeId anchor, const Expr& e);
// Returns the constant that a value is, if it is one.
std::optional<ConstantValue> GetConstant(const Graph& g, ValueId v);
// Returns an integer that is known as a constant or expression (prim::Constant, Value::expr).
std::optional<Expr> GetIntExpr(const Graph& g, ValueId v);
// Returns whether the operator changes the list that is its first argument: append, l[i] = x, +=.
bool ChangesFirstList(OpName op);
// Returns the elements of a list value that prim::ListConstruct made and nobody may change later, or of a constant list
// of ints (as exprs).
std::optional<std::vector<Expr>> GetIntListExpr(const Graph& g, ValueId v);
std::optional<std::vector<ValueId>> GetListElements(const Graph& g, ValueId v);  // of prim::ListConstruct

// Checks that a weight's geometry is valid (as many sizes as strides, none negative, no product that overflows) and
// lies inside its storage of `storage_bytes` bytes. For data from files, before anything computes with it.
absl::Status CheckWeight(const Weight& w, int64_t storage_bytes);

// Checks ids, uses, order labels, names, block structure, dominance, the tables of weights and inputs. An error names
// the node. Linear. Arguments are checked against the operators' schemas by core/op/verify.h.
absl::Status VerifyGraph(const Graph& g);

}  // namespace smelt

#endif  // SMELT_CORE_IR_GRAPH_H_
