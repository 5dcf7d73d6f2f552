// Decodes graphs from files (.smg), which graph_encode.h writes. Decoding trusts nothing: a corrupt or hostile file gives
// an error with the reason, never a crash; memory is bounded by a small multiple of the file's size.
#ifndef SMELT_SCHEMA_GRAPH_DECODE_H_
#define SMELT_SCHEMA_GRAPH_DECODE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

absl::StatusOr<std::unique_ptr<Graph>> DecodeGraph(absl::Span<const uint8_t> bytes);

struct ReadGraphOptions {
  // Reads all weights and checks their digest. Without it, a damaged weight is not detected; all other bytes are always
  // checked.
  bool verify_weights = false;
};
// Weights are mapped privately: they may be written, and the file does not change. Errors begin with the path.
absl::StatusOr<std::unique_ptr<Graph>> ReadGraphFile(absl::string_view path, const ReadGraphOptions& options = {});
// The same for a container in memory.
absl::StatusOr<std::unique_ptr<Graph>> DecodeGraphFile(absl::Span<const uint8_t> bytes,
                                                       const ReadGraphOptions& options = {});

}  // namespace smelt

#endif  // SMELT_SCHEMA_GRAPH_DECODE_H_
