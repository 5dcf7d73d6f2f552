// An eager-order program while it is written: the numbers of values, and the instructions of the current block.
//
//   fb::EagerInstrT& i = writer.Emit(fb::EagerKind::View, node);
//   writer.Inputs(i, node);
//   writer.Outputs(i, node);
//
// Values that are one tensor have one number. Numbers are given in the order in which they are first asked for.
#ifndef SMELT_PIPELINE_EAGER_PROGRAM_WRITER_H_
#define SMELT_PIPELINE_EAGER_PROGRAM_WRITER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/resized_states.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class EagerProgramWriter {
 public:
  EagerProgramWriter(const Graph& graph, BundleBuilder& bundle)
      : g_(graph), bundle_(bundle), program_(std::make_unique<fb::EagerProgramT>()) {}

  const Graph& graph() const { return g_; }
  BundleBuilder& bundle() { return bundle_; }
  fb::EagerProgramT& program() { return *program_; }
  // Completes the program. Nothing may be called afterwards.
  std::unique_ptr<fb::EagerProgramT> Finish();

  int Number(ValueId v);
  bool HasNumber(ValueId v) const { return numbers_.contains(v); }
  int Fresh() { return next_++; }  // the number of a value that is not in the graph
  void Share(ValueId v, int number) { numbers_[v] = number; }
  // An output of a node is the same tensor as `as`.
  void Same(NodeId n, size_t output, ValueId as);
  // Called after an instruction of the top block that may have changed a tensor's sizes.
  void NoteSizes(ValueId now);

  // Blocks are numbered from 0, the top one. Instructions are added to the current block.
  int AddBlock();
  int block() const { return block_; }
  void SetBlock(int block) { block_ = block; }
  // Makes an instruction that carries the node's place in the model. Emit adds it, too.
  std::unique_ptr<fb::EagerInstrT> New(fb::EagerKind kind, NodeId n) const;
  fb::EagerInstrT& Emit(fb::EagerKind kind, NodeId n) { return Add(New(kind, n)); }
  fb::EagerInstrT& Add(std::unique_ptr<fb::EagerInstrT> i);
  void Inputs(fb::EagerInstrT& i, NodeId n);
  void Outputs(fb::EagerInstrT& i, NodeId n);
  // Raises an error with this message.
  void EmitRaise(const std::string& message, NodeId n);

 private:
  const Graph& g_;
  BundleBuilder& bundle_;
  std::unique_ptr<fb::EagerProgramT> program_;
  absl::flat_hash_map<ValueId, int> numbers_;
  int next_ = 0;
  int block_ = 0;
  std::vector<ChangedSizes> changed_sizes_;
};

// Returns the dtype of a tensor; nullopt if it is not known, or the value is no tensor.
std::optional<DType> DTypeOf(const Graph& g, ValueId v);

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_PROGRAM_WRITER_H_
