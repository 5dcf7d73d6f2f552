// The generator's parts, one file each: the call (generate_inputs.cc), views (generate_views.cc), writes and pure
// operators (generate_operators.cc), branches and loops (generate_control_flow.cc).
#ifndef SMELT_TOOLS_FUZZ_GENERATOR_PARTS_H_
#define SMELT_TOOLS_FUZZ_GENERATOR_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/op_info.h"
#include "smelt/tools/fuzz/generator.h"
#include "smelt/tools/fuzz/more_operators.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt::fuzz_internal {

// The minimum number of elements of each storage of a call, so that as_strided may address it absolutely.
inline constexpr int64_t kAbsoluteElements = 24;

struct Var {
  ValueId value;
  int object = 0;      // names of one tensor have the same number
  int argument = -1;   // whose storage it surely shares; -1: its own or unknown
  bool fixed = false;  // went through control flow: its geometry does not change
};

class Generator {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options) : random_(seed), options_(options) {}
  Sample Make();

 private:
  Graph& g() { return *sample_.graph; }
  int Below(int64_t n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  template <typename T>
  const T& AnyOf(const std::vector<T>& v) {
    return v[Below(static_cast<int64_t>(v.size()))];
  }
  const TensorType& TypeOf(const Var& v) { return g().value(v.value).type.tensor(); }
  DType DTypeOf(const Var& v) { return *TypeOf(v).dtype; }
  int Rank(const Var& v) { return TypeOf(v).rank(); }
  // Returns a size in the call that will be made.
  int64_t Size(const Expr& e);
  std::vector<int64_t> Sizes(const Var& v) { return All(*TypeOf(v).sizes); }
  std::vector<int64_t> Strides(const Var& v) { return All(*TypeOf(v).strides); }
  std::vector<int64_t> All(const std::vector<Expr>& exprs);
  bool Known(const Var& v);
  static int64_t Product(const std::vector<int64_t>& v);

  // --- inputs ---
  DType RandomDType();
  std::vector<int64_t> RandomShape();
  std::vector<int64_t> RandomStrides(const std::vector<int64_t>& sizes);
  void MakeInputs();
  void MakeWeights(DType dtype, const std::vector<int64_t>& shape);
  std::string RandomBytes(DType dtype, int64_t elements);

  // Chooses the arguments' storages: their own, or a common one, overlapping or not, or twice the same.
  void MakeStorages();

  // --- nodes ---
  ValueId Constant(const ConstantValue& v) { return InsertConstant(g(), g().block(block_).return_node, v); }
  ValueId Ints(std::vector<int64_t> v) { return Constant(std::move(v)); }
  ValueId Int(int64_t v) { return Constant(v); }
  ValueId Float(double v) { return Constant(v); }
  // Makes a list of tensors.
  ValueId TensorList(const std::vector<ValueId>& elements);

  // Returns the results of a node, or nullopt if the operator does not take these arguments.
  std::optional<std::vector<ValueId>> Try(absl::string_view name, std::vector<ValueId> inputs);
  void AddVar(ValueId v, int argument = -1) { vars_.push_back({v, next_object_++, argument}); }
  void AddName(ValueId v, const Var& of) { vars_.push_back({v, of.object, of.argument, of.fixed}); }
  bool View(absl::string_view op, const Var& x, std::vector<ValueId> inputs);
  bool Pure(absl::string_view op, std::vector<ValueId> inputs);
  bool InPlace(absl::string_view op, const Var& x, std::vector<ValueId> inputs);
  bool Out(absl::string_view op, const Var& x, std::vector<ValueId> inputs);
  Var Pick();
  // Returns a random value that can be broadcast to x.
  std::optional<Var> Operand(const Var& x, bool same_dtype);
  int64_t Dim(const Var& x);
  int64_t DimSize(const Var& x, int64_t dim);
  void Node(int depth);
  void Unpack(ValueId list, const Var& x);
  void MakeView();
  bool AsStrided(absl::string_view op, const Var& x);
  std::vector<int64_t> OtherShape(std::vector<int64_t> sizes);
  bool Numeric(const Var& x) { return DTypeOf(x) != DType::kBool; }
  bool Ordered(const Var& x) { return !IsComplex(DTypeOf(x)); }
  // Makes a number that fits the dtype.
  ValueId Number(const Var& x);
  // Makes a mask of x's sizes.
  std::optional<ValueId> Mask(const Var& x);
  // Makes `count` indices into a dim of this size.
  std::optional<ValueId> Indices(int64_t size, int64_t count);
  void MakeWrite();
  void MakePure();

  // --- operators of which a table says what they take ---
  bool Fits(const Var& x, Takes takes);
  // Makes indices in [0, size), one for each element of x; `distinct`: each index once along the dim.
  std::optional<ValueId> Places(const Var& x, int64_t dim, int64_t size, bool distinct);
  std::optional<Var> OfDTypeAs(const Var& x, bool same_sizes);
  std::optional<ValueId> ListLike(const Var& x, bool first);
  std::optional<ValueId> ArgumentOf(const Var& x, absl::string_view word, int64_t dim);
  void MakeMore();

  // t_, squeeze_, ...: afterwards the tensor has only one name.
  void ChangeGeometry();
  void Retire(int object);

  // --- control flow ---
  struct Scope {
    std::vector<Var> vars;
    std::vector<ValueId> ints, bools, counters;
    BlockId block;
  };
  Scope Enter(BlockId b);
  void Leave(Scope s);
  void Body(int depth);
  ValueId Condition();
  ValueId Predicate();  // of cond: a tensor
  // Chooses results of two blocks that have the same dtype and size.
  void FinishBranches(NodeId n, const std::vector<std::vector<Var>>& vars);
  void Finish(NodeId n);
  void If(int depth);

  // The form in an export: closed blocks over operands.
  void Cond(int depth);
  void Loop(int depth);
  // Returns the next value of a carried value.
  Var Next(const Var& p);
  void While(int depth);
  void MakeOutputs();

  // Removes constants and lists of attempts that failed.
  void RemoveUnused(BlockId b);

  std::mt19937_64 random_;
  GeneratorOptions options_;
  Sample sample_;
  BlockId block_;
  std::vector<Var> vars_;
  std::vector<ValueId> ints_, bools_, counters_, odd_outputs_;
  absl::flat_hash_map<std::string, int64_t> symbol_values_;
  int left_ = 0, next_object_ = 0, pieces_ = 0, inside_ = 0;
};

}  // namespace smelt::fuzz_internal

#endif  // SMELT_TOOLS_FUZZ_GENERATOR_PARTS_H_
