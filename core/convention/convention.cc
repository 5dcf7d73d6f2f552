#include "smelt/core/convention/convention.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace smelt {
namespace {

std::string List(const std::vector<Expr>& v) {
  return absl::StrCat(
      "[", absl::StrJoin(v, ", ", [](std::string* out, const Expr& e) { absl::StrAppend(out, e.ToString()); }), "]");
}

std::string Text(const SymbolicGeometry& g) {
  return absl::StrCat(Name(g.dtype), List(g.sizes), " strides ", List(g.strides), " offset ", g.offset.ToString());
}

}  // namespace

std::string Convention::ToString() const {
  std::string out = "duplicates:";
  for (DistinctIndex i : duplicates.inner_of_outer) absl::StrAppend(&out, " ", i.value());
  absl::StrAppend(&out, "\noverlaps:");
  for (MemoryIndex m : overlaps.memory_of) absl::StrAppend(&out, " ", m.value());
  absl::StrAppend(&out, " of ", overlaps.num_argument_memories, " memories, ", overlaps.num_memories,
                  " with states\nmutations:\n");
  for (const MutatedMemory& m : mutations.memories) {
    absl::StrAppend(&out, "  memory ", m.memory.value(), " becomes graph output ", m.contents.value());
    if (m.resized) absl::StrAppend(&out, ", resized to ", m.final_bytes.ToString(), " bytes");
    absl::StrAppend(&out, "\n");
    for (const SymbolicGeometry& r : m.written) absl::StrAppend(&out, "    written ", Text(r), "\n");
  }
  for (const MutatedInput& m : mutations.inputs) {
    absl::StrAppend(&out, "  ", m.is_state ? absl::StrCat("state ", m.state) : absl::StrCat("argument ", m.arg.value()),
                    " becomes ", Text(m.final_geometry));
    if (m.storage) {
      absl::StrAppend(&out, m.final_source == MutatedInput::Source::kGraphOutput
                                ? absl::StrCat(" in graph output ", m.final_output.value())
                                : absl::StrCat(" in memory ", m.final_memory.value()));
    }
    absl::StrAppend(&out, "\n");
  }
  absl::StrAppend(&out, "outputs:\n");
  for (const OutputInfo& o : outputs.outputs) {
    switch (o.kind) {
      case OutputInfo::Kind::kIsArgument:
        absl::StrAppend(&out, "  argument ", o.argument.value(), "\n");
        break;
      case OutputInfo::Kind::kIsState:
        absl::StrAppend(&out, "  state ", o.state, "\n");
        break;
      case OutputInfo::Kind::kAliasOfMemory:
        absl::StrAppend(&out, "  view of memory ", o.memory.value(), ": ", Text(o.geometry), "\n");
        break;
      case OutputInfo::Kind::kAliasOfIntermediate:
        absl::StrAppend(&out, "  view of graph output ", o.contents.value(), ": ", Text(o.geometry), "\n");
        break;
      case OutputInfo::Kind::kFresh:
        absl::StrAppend(&out, "  graph output ", o.contents.value(), "\n");
        break;
      case OutputInfo::Kind::kScalar:
        absl::StrAppend(&out, "  number ", o.contents.value(), "\n");
        break;
      case OutputInfo::Kind::kConstant:
        absl::StrAppend(&out, "  ", o.constant.ToString(), "\n");
        break;
      case OutputInfo::Kind::kNone:
        absl::StrAppend(&out, "  none\n");
        break;
    }
  }
  return out;
}

}  // namespace smelt
