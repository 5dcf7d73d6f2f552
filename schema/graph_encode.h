// Encodes graphs as files (.smg): structure in FlatBuffers (graph.fbs), the contents of weights as a page-aligned
// segment that is mapped when read.
//
//   SMELT_RETURN_IF_ERROR(WriteGraphFile(graph, "net.smg"));
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ReadGraphFile("net.smg"));   // of graph_decode.h
//   PrintGraph(*g) == PrintGraph(graph)   // ids may differ, all else is equal
//
// Equal graphs give equal bytes.
#ifndef SMELT_SCHEMA_GRAPH_ENCODE_H_
#define SMELT_SCHEMA_GRAPH_ENCODE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Encodes the structure only: decoded weight storages have their size but no contents (data() is null). It is an error
// if a graph is too large for the format (over 10 million nodes, 1 GiB of constants).
absl::StatusOr<std::string> EncodeGraph(const Graph& g);

// Storages without contents are written without contents.
absl::Status WriteGraphFile(const Graph& g, absl::string_view path);
// The same as a container in memory.
absl::StatusOr<std::string> EncodeGraphFile(const Graph& g);

}  // namespace smelt

#endif  // SMELT_SCHEMA_GRAPH_ENCODE_H_
