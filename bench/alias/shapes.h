// The graphs with which the alias database is measured, at any size.
#ifndef SMELT_BENCH_ALIAS_SHAPES_H_
#define SMELT_BENCH_ALIAS_SHAPES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct Shape {
  std::string name;
  std::string description;
  bool straight_line = false;
  std::unique_ptr<Graph> (*make)(int64_t nodes);  // about this many nodes, blocks' nodes included
};
// Returns them in a stable order.
absl::Span<const Shape> Shapes();
const Shape* FindShape(const std::string& name);

// 75 convolutions, 72 batch norms with leaky_relu_, 23 residual additions in place, 2 times upsample and cat, 3 heads:
// with its constants and lists, about as many nodes as a scripted and inlined YOLOv3.
std::unique_ptr<Graph> MakeYolo();
// The form of TorchScript before any simplification, with branches on training mode: a detector of that shape whose
// stages are `scale` times as long, and a Transformer of 12 * scale layers with dropout and caches that it writes.
std::unique_ptr<Graph> MakeScriptedDetector(int64_t scale);
std::unique_ptr<Graph> MakeScriptedTransformer(int64_t scale);

}  // namespace smelt

#endif  // SMELT_BENCH_ALIAS_SHAPES_H_
