// Describes the arguments, results and states of a bundle without a call: the types of results, what calls write, the
// ranges of sizes, expressions as text. The bundle must be verified.
#ifndef SMELT_SCHEMA_BUNDLE_SIGNATURE_H_
#define SMELT_SCHEMA_BUNDLE_SIGNATURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smelt/core/convention/call_structure.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

// The bundle's structure tables as the rest of smelt has them, and back.
Structure StructureOf(const std::vector<std::unique_ptr<fb::StructureNodeT>>& nodes);
std::vector<std::unique_ptr<fb::StructureNodeT>> StructureTables(const Structure& structure);

// "(4 * s0)". Ends in an ellipsis where it is deep or long. Costs at most a few thousand characters, whatever the
// expression.
std::string ExprText(const fb::BundleT& bundle, int expr);

// The values that expressions may have, by expression, where every symbol is in its range. INT64_MIN and INT64_MAX also
// stand for what is smaller or greater than any int64.
struct ValueRange {
  int64_t min = 0, max = 0;
};
std::vector<ValueRange> RangesOfExprs(const fb::BundleT& bundle);

// A size of a result: an expression, or a number if `expr` is -1; -1 where only the call knows.
struct ResultSize {
  int expr = -1;
  int64_t number = -1;
};
struct ResultType {
  // Where the result lies: in no memory of the caller's or the model's that outlives the call, in that of an argument
  // or a state, in that of another result (or of something that only the call knows), or it is the argument or state.
  enum class Place { kUnknown, kFresh, kInArgument, kIsArgument, kInState, kIsState, kShared, kNoTensor };
  Place place = Place::kUnknown;
  int index = -1;  // of the argument or state tensor
  fb::ArgKind kind = fb::ArgKind::Tensor;
  int dtype = -1;          // DType; -1: not known before the call
  bool has_sizes = false;  // of a tensor: whether the rank is known
  std::vector<ResultSize> sizes;
};
// Returns the type of every result, from the first plan that has results (plans differ in where results are, not in
// what they are). Without such a plan nothing is known but the kinds.
std::vector<ResultType> ResultTypes(const fb::BundleT& bundle);

// Returns the effects of some call of the program on each argument: flags of fb::MutationKind.
std::vector<uint8_t> EffectsOnArguments(const fb::BundleT& bundle);

// By state: whether a call may resize its storage, which then may lie elsewhere in memory.
std::vector<bool> StatesThatMayMove(const fb::BundleT& bundle);

}  // namespace smelt

#endif  // SMELT_SCHEMA_BUNDLE_SIGNATURE_H_
