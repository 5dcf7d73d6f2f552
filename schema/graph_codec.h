// Encodes graphs as files (.smg): structure in FlatBuffers (graph.fbs), the contents of weights as a page-aligned
// segment that is mapped when read.
//
//   SMELT_RETURN_IF_ERROR(WriteGraphFile(graph, "net.smg"));
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ReadGraphFile("net.smg"));
//   PrintGraph(*g) == PrintGraph(graph)   // ids may differ, all else is equal
//
// Equal graphs give equal bytes. Decoding trusts nothing: a corrupt or hostile file gives an error with the reason,
// never a crash; memory is bounded by a small multiple of the file's size.
#ifndef SMELT_SCHEMA_GRAPH_CODEC_H_
#define SMELT_SCHEMA_GRAPH_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Encodes the structure only: decoded weight storages have their size but no contents (data() is null). It is an error
// if a graph is too large for the format (over 10 million nodes, 1 GiB of constants).
absl::StatusOr<std::string> EncodeGraph(const Graph& g);
absl::StatusOr<std::unique_ptr<Graph>> DecodeGraph(absl::Span<const uint8_t> bytes);

// Storages without contents are written without contents.
absl::Status WriteGraphFile(const Graph& g, absl::string_view path);

struct ReadGraphOptions {
  // Reads all weights and checks their digest. Without it, a damaged weight is not detected; all other bytes are always
  // checked.
  bool verify_weights = false;
};
// Weights are mapped privately: they may be written, and the file does not change. Errors begin with the path.
absl::StatusOr<std::unique_ptr<Graph>> ReadGraphFile(absl::string_view path, const ReadGraphOptions& options = {});
// The same for a container in memory.
absl::StatusOr<std::string> EncodeGraphFile(const Graph& g);
absl::StatusOr<std::unique_ptr<Graph>> DecodeGraphFile(absl::Span<const uint8_t> bytes,
                                                       const ReadGraphOptions& options = {});

}  // namespace smelt

#endif  // SMELT_SCHEMA_GRAPH_CODEC_H_
