// The reader of one archive: pt2.cc starts it, and each of the other files reads a part of the archive.
#ifndef SMELT_FRONTEND_PT2_READER_H_
#define SMELT_FRONTEND_PT2_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/call_structure_reader.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2.h"
#include "smelt/frontend/pt2_weights.h"
#include "smelt/frontend/size_guards.h"
#include "smelt/frontend/zip_archive.h"

namespace smelt {
namespace pt2_internal {

// The values of one graph by name, and their metadata in the archive.
struct Scope {
  const Json* graph = nullptr;
  absl::flat_hash_map<std::string, ValueId> values;
};

// The memory of a value of the graph.
struct Memory {
  enum Kind { kUnknown, kOwn, kOperands } kind = kUnknown;
  ValueId operand;  // with kOperands: the one that the value is, or is a view of
};
Memory MemoryOf(const Graph& g, ValueId v);

class Pt2Reader {
 public:
  // Both must outlive this.
  Pt2Reader(const ZipArchive& zip, const Pt2Options& options) : zip_(zip), options_(options) {}

  absl::StatusOr<Pt2Model> Read();

 private:
  // --- pt2.cc: the archive and its program ---
  absl::Status FindEntries();
  absl::Status ReadProgram(const Json& program);
  // Reads the ranges of symbols that only the data determines, which the slices between such numbers need, or of the
  // others, whose hints come from the values.
  absl::Status ReadRanges(const Json& program, bool of_data);
  // Parses the conditions that the program's own branches on sizes left.
  std::vector<std::pair<std::string, absl::StatusOr<SizeGuardParts>>> ParseGuards(const Json& program) const;
  void FindArguments();
  ValueId ArgumentAt(const ArgumentPath& path) const;
  std::optional<Expr> NumberOf(const GuardedNumber& at) const;
  std::optional<Expr> HoldsForTheExample(absl::string_view guard) const;
  void KeepGuards(const Json& program);

  // --- pt2_types.cc: sizes, and types of values ---
  absl::StatusOr<Expr> ReadSize(const Json& j);
  // Computes the example's value of a symbol from that of a linear expression in it.
  void NoteHint(const Expr& e, int64_t value);
  absl::StatusOr<std::vector<Expr>> ReadSizes(const Json& list);
  absl::StatusOr<Type> TensorTypeOf(const Scope& scope, const std::string& name);
  absl::StatusOr<std::optional<Expr>> SymIntExpr(const Scope& scope, const std::string& name);
  // Notes that the symbols of a defined value are not new.
  void MeetSymbols(const Type& type, const std::optional<Expr>& expr);
  // A slice between bounds that only the data determines has a size with a new symbol in the archive. The bounds
  // replace it wherever the archive names it. Returns whether there is one, in which case the type must be read again.
  bool ComputeNewSizes(NodeId n, const Type& declared);

  // --- pt2_counts.cc ---
  // Values of uint16 are read as int32, which says the same of numbers from 0 on that are counted and compared. An
  // error if they are anything else, or reach an input or a result.
  static int64_t CodeOfCounts();
  absl::Status CheckCounts() const;

  // --- pt2_signature.cc: inputs and outputs ---
  absl::StatusOr<std::string> InputName(const Json& input);
  absl::Status ReadInputs(const Json& graph, const Json& signature, Scope& scope);
  absl::Status ReadInput(const Json& input, const Json& spec, Scope& scope);
  // Gives the value its type, from the metadata, through `add`, and enters it in the scope.
  absl::StatusOr<ValueId> DeclareInput(const Json& input, const std::string& name, Scope& scope,
                                       absl::FunctionRef<ValueId(Type)> add);
  absl::Status ReadOutputs(const Json& graph, const Json& signature, Scope& scope);
  // `written` maps the new contents of an input to the input. If the model returns those contents, or a view of them,
  // it returns that input, or a view of it: in the archive a copy of the contents would be another value.
  absl::Status ReturnWhatIsWritten(const absl::flat_hash_map<ValueId, ValueId>& written);

  // --- pt2_nodes.cc ---
  // One declared output: its name ("" for none) and type.
  struct OutputDecl {
    std::string name;
    Type type;
    std::optional<Expr> expr;
    std::vector<OutputDecl> elements;  // of a list
    bool is_list = false;
  };
  absl::Status ReadNodes(const Json& graph, BlockId block, Scope& scope, int depth);
  absl::Status ReadNodesBetween(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope, int depth);
  // Returns the innermost frame of the stack trace that belongs to the model's own code.
  std::shared_ptr<const SourceLocation> ReadSource(const Json& node);
  // "torch.ops.aten.add_.Tensor" -> aten::add_.Tensor; "_operator.mul" -> aten::mul.int.
  absl::StatusOr<OpName> TargetName(const std::string& target, const Json& inputs);
  absl::Status ReadNode(const Json& node, BlockId block, Scope& scope, int depth);
  // Reads the call of a node, or of an effect within one. `node` gives the metadata.
  absl::Status ReadCall(const std::string& target, const Json& inputs, const Json& outputs, const Json& node,
                        BlockId block, Scope& scope, int depth);
  // Inserts an operator that the archive does not contain, and returns its one result of `type`.
  absl::StatusOr<ValueId> Compute(const char* op, std::vector<ValueId> args, Type type, NodeId anchor);
  // Reads prims.fma(a, b, c), into which a strict export turns addcmul_ and addcdiv_: PyTorch's CPU kernels round the
  // product.
  absl::Status ReadFma(const Json& inputs, const Json& outputs, BlockId block, Scope& scope);
  // Reads an aten::item of an integer for which the archive states a value (4, or a size) because assertions after it
  // require that value. Uses the stated value and checks that the tensor holds it.
  absl::Status ReadStatedItem(ValueId tensor, const OutputDecl& stated, NodeId anchor, Scope& scope);
  // Reads torch.sym_ite(b, t, f) of integers, which an export writes for each bool that it reads from a tensor.
  absl::Status ReadSymIte(const Json& inputs, const Json& outputs, BlockId block, Scope& scope);
  // Returns 1 if `b`, a bool, holds, else 0.
  absl::StatusOr<ValueId> OneIf(ValueId b, NodeId anchor);
  absl::StatusOr<OutputDecl> ReadOutput(const Json& output, const Scope& scope);
  // Binds the scope's name to a value that may have another name of its own; an empty name is none.
  absl::Status Bind(const std::string& name, ValueId v, Scope& scope);
  // Does the same for a value that the node makes: the value gets its name and number.
  absl::Status Define(const OutputDecl& d, ValueId v, Scope& scope);
  absl::Status AddNode(OpName op, const std::vector<ValueId>& args, const Json& outputs, NodeId anchor, Scope& scope,
                       const FunctionSchema* schema);

  // --- pt2_arguments.cc: what a node is given ---
  absl::Status ReadArguments(const FunctionSchema& schema, const Json& inputs, const Scope& scope, NodeId anchor,
                             std::vector<ValueId>& args);
  // Converts a number to a tensor where Python code of PyTorch does: to a 0-dim tensor of the number's own dtype.
  ValueId NumberAsTensor(ValueId v, NodeId anchor);
  ValueId Constant(NodeId anchor, const ConstantValue& c, const Type& type);
  absl::StatusOr<ValueId> Lookup(const Scope& scope, const std::string& name);
  // Returns an argument of any kind as a value. `type` is the schema's (kAny if unknown).
  absl::StatusOr<ValueId> ReadValue(const Json& arg, const Scope& scope, NodeId anchor, const Type& type);
  absl::StatusOr<ValueId> ReadList(const std::string& kind, const Json& v, const Scope& scope, NodeId anchor,
                                   const Type& type);

  // --- pt2_assignments.cc ---
  //
  // Returns whether the node is torch.export's form of an assignment to a buffer.
  bool IsAssignment(const Json& node, OpName op, const std::vector<ValueId>& args);
  // For each assignment that was found, the buffer becomes the assigned tensor, unless that may be the caller's: then
  // the assigned contents are copied into the buffer.
  void OpenAssignments();

  // --- pt2_autocast.cc ---
  // wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, ...)
  absl::Status BeginAutocast(const Json& inputs);
  // Converts the arguments of an operator as eager PyTorch's autocast does on the CPU. An operator in neither list is
  // not changed; CheckTypes finds those that autocast would have treated otherwise.
  void Autocast(OpName op, NodeId anchor, std::vector<ValueId>& args);

  // --- pt2_subgraphs.cc: higher-order operators ---
  absl::Status ReadHigherOrder(const std::string& name, const Json& inputs, const Json& outputs, BlockId block,
                               Scope& scope, int depth);
  // Reads outputs; a list is replaced by its elements.
  absl::StatusOr<std::vector<OutputDecl>> ReadOutputsSpread(const Json& outputs, const Scope& scope);
  // Reads with_effects(token, operator, ...) -> token, ... as the call. The graph's order is that of the effects.
  absl::Status ReadEffect(const Json& inputs, const Json& outputs, const Json& node, BlockId block, Scope& scope,
                          int depth);
  // Reads a nested graph into `block`, whose parameters are the graph's inputs.
  absl::Status ReadSubgraph(const Json& arg, BlockId block, int depth);
  // Reads scan(graph, carried, rows, additional) and map_impl(graph, rows, additional), for a constant number of rows:
  // iteration by iteration.
  absl::Status ReadTrips(bool carries, const Json& inputs, const Json& outputs, BlockId block, Scope& scope, int depth);
  // The rows of a scan or a map: `count` rows of `elements`.
  struct Trips {
    const Json& body;
    const std::vector<ValueId>&carried, &elements, &additional;
    const Expr& count;
  };
  absl::Status ReadTripsAsLoop(const Trips& trips, const Json& outputs, BlockId block, Scope& scope, int depth);
  // Returns row `index`, an int, of a tensor.
  ValueId Row(ValueId of, ValueId index, NodeId anchor);
  // Reads a nested graph's nodes into `block` and returns its results.
  absl::StatusOr<std::vector<ValueId>> ReadInlined(const Json& arg, const std::vector<ValueId>& args, BlockId block,
                                                   int depth);
  absl::Status InlineSubgraph(const Json& arg, const std::vector<ValueId>& args, const Json& outputs, BlockId block,
                              Scope& outer, int depth);
  // Reads an operand list: {"as_tensors": [...]} or a mixed tuple.
  absl::Status ReadOperands(const Json& arg, const Scope& scope, NodeId anchor, std::vector<ValueId>& out);
  absl::StatusOr<const Json*> Operand(const Json& inputs, size_t i);
  absl::Status CheckResults(NodeId n, size_t expected);

  // --- pt2_functionalized.cc ---
  //
  // Reads auto_functionalized(operator, **arguments) and auto_functionalized_v2, into which run_decompositions() turns
  // the call of an operator that writes: the call on copies, which are results. In the second form written arguments are
  // views of the tensors `_all_bases`, which are copied.
  absl::Status ReadAutoFunctionalized(const Json& inputs, const Json& outputs, BlockId block, Scope& scope);

  // --- pt2_vmap.cc ---
  static bool BeginsVmap(const Json& node);
  static absl::StatusOr<size_t> EndOfVmap(const Json& nodes, size_t first);
  // Reads the nodes from _vmap_increment_nesting to its end, example by example.
  absl::Status ReadVmap(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope, int depth);
  absl::Status ReadExamples(const Json& nodes, size_t first, size_t end, int64_t examples, BlockId block, Scope& scope,
                            int depth);
  absl::Status ReadTake(const Json& node, int64_t example, NodeId anchor, Scope& scope);
  // `batched` are the values that depend on the example. The joined value was made after `marker`, and only once.
  absl::Status ReadJoin(const Json& node, int64_t examples,
                        const absl::flat_hash_map<std::string, std::vector<ValueId>>& batched, NodeId marker,
                        absl::flat_hash_set<ValueId>& joined, NodeId anchor, Scope& scope);

  const ZipArchive& zip_;
  const Pt2Options& options_;
  std::string root_, model_entry_, torch_version_;
  std::vector<std::string> warnings_;
  std::vector<std::string> unchecked_guards_;
  CallStructure structure_;
  // By where they are among Python's arguments; nothing if the archive does not say.
  std::optional<absl::flat_hash_map<ArgumentPath, ValueId>> arguments_;
  std::unique_ptr<Graph> g_owner_;
  Graph* g_ = nullptr;
  std::optional<Pt2Weights> weights_;  // of the archive, once its folder is known
  absl::flat_hash_map<std::string, std::shared_ptr<const SourceLocation>> sources_;
  std::shared_ptr<const SourceLocation> current_source_;
  std::vector<NodeId> assignments_;
  // the copy_ calls of the model itself, by their names in the archive
  absl::flat_hash_set<std::string> copies_called_;
  absl::flat_hash_set<std::string> counts_;  // values of uint16, by name
  absl::flat_hash_set<std::string> symbols_met_;
  absl::flat_hash_map<std::string, Expr> computed_;  // symbols of the archive that are expressions of others
  int num_bools_read_ = 0;                           // each as the symbol of a number, "u_bool0"
  std::optional<DType> autocast_;                    // in a region of it: the lower precision
  bool autocast_seen_ = false;
  int64_t vmap_examples_ = 1;  // of the surrounding vmaps
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_READER_H_
