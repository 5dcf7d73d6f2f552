// The effects of an operator on memory: the arguments whose bytes and geometry it reads and writes, and the memory of
// its results. They come from the schema's annotations, corrected by PyTorch's observed behaviour
// (testdata/hidden_effects.txt) and, for containers, control flow and the operators that depend on a constant argument
// (batch_norm's training, to's copy), by hand.
//
//   const OpEffects& e = GetOpEffects(OpName::Get("aten::add_.Tensor"));
//   e.arg(0) & kWritesData;        // yes
//   e.results[0].self;             // 1: the result is argument 0 itself
//   OpEffects now = NodeEffects(graph, node);   // with the constants and types of this very node
//
// An operator without a schema may do anything: kind kUnknown.
#ifndef SMELT_CORE_OP_EFFECTS_H_
#define SMELT_CORE_OP_EFFECTS_H_

#include <cstdint>
#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/op_name.h"

namespace smelt {

// The effects on one argument.
enum ArgEffect : uint16_t {
  kReadsData = 1,            // the bytes of a tensor
  kReadsGeometry = 2,        // sizes, strides, storage of a tensor handle (every use of a tensor but an identity test)
  kWritesData = 4,           // some of the tensor's bytes
  kWritesGeometry = 8,       // t_, resize_, set_, out= of another size: the handle changes, not the bytes
  kReadsElements = 16,       // the bytes of the tensors that a container reaches
  kWritesElements = 32,      // _foreach_add_
  kReadsContainer = 64,      // the list, dictionary or object itself
  kWritesContainer = 128,    // append
  kShufflesContainer = 256,  // with kWritesContainer: afterwards elements are at other positions (insert, sort, pop)
  kStored = 512,             // becomes an element of the containers that the node writes
  kStoresElements = 1024,    // its elements become elements of the containers that the node writes (extend)
  kEscapes = 2048,           // may be kept by code outside of this graph
  kReshapesElements = 4096,  // handles that a container reaches: kWritesGeometry of each
};

// The possible memory of a result. Masks are over the arguments.
struct ResultEffects {
  uint64_t self = 0;          // the argument itself (the same tensor handle, the same list)
  uint64_t view = 0;          // another tensor over the argument's storage
  uint64_t element = 0;       // an element of the argument
  uint64_t element_view = 0;  // a tensor over the storage of an element of the argument
  bool fresh = false;         // new memory
  bool unknown = false;       // anything that has escaped or is the caller's
  int8_t slot_arg = -1;       // the argument that says which element, for `element`
  // Elements of a result that is a new container.
  uint64_t elements_self = 0;          // the arguments themselves
  uint64_t elements_view = 0;          // tensors over the arguments' storages
  uint64_t elements_element = 0;       // the elements of the arguments
  uint64_t elements_element_view = 0;  // tensors over storages of the arguments' elements
  bool elements_fresh = false;
  bool elements_unknown = false;  // anything that has escaped or is the caller's
  bool elements_deep = false;     // containers that hold what the arguments reach (items, dict)
  bool elements_overlap = false;  // two elements may share memory with each other beyond what the arguments say
  bool lazy_copy = false;         // a view becomes a copy if the argument is lazily conjugated or negated
  bool partition = false;  // the k-th element is the k-th of disjoint pieces along a dimension (split, chunk, unbind)
  uint32_t overlaps_results = 0;  // earlier results this one may share memory with
};

enum class EffectKind : uint8_t {
  kGeneric,  // `args` and `results` describe all effects
  kScalar,   // touches no memory: arithmetic on numbers, sizes
  kConstant,
  kIf,
  kLoop,
  kCond,   // smelt::cond: operands are block parameters
  kWhile,  // smelt::while_loop
  kTupleConstruct,
  kListConstruct,
  kDictConstruct,
  kTupleUnpack,
  kListUnpack,
  kTupleIndex,
  kTupleSlice,
  kGetAttr,
  kSetAttr,
  kCreateObject,
  kFork,
  kWait,
  kSubgraph,  // runs the graph in its attribute "Subgraph"
  kConstantChunk,
  kCall,  // unknown code that reaches only what its arguments reach
  kUnknown,
};

struct OpEffects {
  EffectKind kind = EffectKind::kGeneric;
  std::vector<uint16_t> args;
  uint16_t more_args = 0;  // those beyond `args`
  std::vector<ResultEffects> results;
  ResultEffects more_results;
  bool random = false;       // draws from the generator
  bool side_effect = false;  // prints, raises, waits: keeps its order among such nodes
  bool writes = false;       // some argument's data, geometry, elements, their geometry or container
  bool pure = false;         // no writes, side effects, random state; results fresh or without memory, arguments read
  int geometry_from = -1;    // set_: afterwards argument 0 lives in this argument's storage
  bool storage_unknown = false;  // set_(Storage)
  bool keeps_geometry = false;   // its kWritesGeometry concerns only what autograd and named tensors know of the handle
  bool takes_strides = false;    // the result has the strides that it is given, which may make indices share bytes
  int8_t sizes_arg = -1;         // for a new contiguous tensor: the argument that gives its sizes
  int8_t format_arg = -1;        // and the one that may request another memory format
  // The part of a node that NodeEffects reads.
  enum class By : uint8_t {
    kNothing,
    kTraining,
    kDropout,
    kTo,
    kContiguous,
    kReshape,
    kTypeAs,
    kSumTo,  // the argument itself, or its sum if another size is requested
    kItself,
    kWith,
    kLazy,    // see lazy_copy
    kSparse,  // for a sparse gradient only, which by_arg requests
    kOfOne,   // for a list of one tensor it may be a view
    kDraws,   // random unless by_arg is false or by_arg2 is 0
    kOut
  } by = By::kNothing;
  int8_t by_arg = -1, by_arg2 = -1;

  uint16_t arg(size_t i) const { return i < args.size() ? args[i] : more_args; }
  const ResultEffects& result(size_t i) const { return i < results.size() ? results[i] : more_results; }
};

// Returns the effects by name and overload. Thread-safe; the reference stays valid. For a name without overload whose
// schemas all have one, it is the union of its overloads' effects if they agree in the number of arguments, else
// unknown.
const OpEffects& GetOpEffects(OpName op);

// Returns the effects of this node, as far as constant flags and, with trust_types, the types of its arguments decide
// them. O(arguments).
OpEffects NodeEffects(const Graph& g, const Node& n, const OpEffects& e, bool trust_types);
inline OpEffects NodeEffects(const Graph& g, NodeId n) {
  return NodeEffects(g, g.node(n), GetOpEffects(g.node(n).op), true);
}

// Returns whether values of the type can share memory: tensors, lists, dictionaries, objects, futures, and values that
// hold them.
bool IsAliasingType(const Type& t);
bool IsTensorType(const Type& t);     // Tensor or Tensor?
bool IsContainerType(const Type& t);  // list, dictionary, tuple, class, future; optionals of those; Any and unions too

}  // namespace smelt

#endif  // SMELT_CORE_OP_EFFECTS_H_
