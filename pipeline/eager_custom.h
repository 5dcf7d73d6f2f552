// Operators of the user's own in an eager-order program, and the symbols that their results give values to.
#ifndef SMELT_PIPELINE_EAGER_CUSTOM_H_
#define SMELT_PIPELINE_EAGER_CUSTOM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/eager_program_writer.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class EagerCustom {
 public:
  explicit EagerCustom(EagerProgramWriter& writer) : w_(writer) {}

  // Takes note of the symbols that the program knows from here on. Must be called for every value in order.
  void NoteSymbols(ValueId v);
  absl::Status EmitCustom(NodeId n);

 private:
  const Graph& g() const { return w_.graph(); }
  void Note(const Expr& e);
  bool IsNew(const Expr& e) const;
  absl::StatusOr<std::unique_ptr<fb::StatedTensorT>> Stated(const Type& type);
  // Returns the values that the list is unpacked into at once; none if it is used in another way.
  std::vector<ValueId> UnpackedInto(ValueId list) const;
  // Numbers and sizes that the implementation chose give their symbols values.
  absl::Status DefineSymbols(NodeId n, ValueId v);

  EagerProgramWriter& w_;
  absl::flat_hash_set<std::string> known_symbols_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_CUSTOM_H_
