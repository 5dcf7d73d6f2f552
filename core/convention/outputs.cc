#include "smelt/core/convention/outputs.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string OutputsLayer::ToString() const {
  std::string out = "outputs:\n";
  for (const OutputInfo& o : outputs) {
    switch (o.kind) {
      case OutputInfo::Kind::kIsArgument:
        absl::StrAppend(&out, "  argument ", o.argument.value(), "\n");
        break;
      case OutputInfo::Kind::kIsState:
        absl::StrAppend(&out, "  state ", o.state, "\n");
        break;
      case OutputInfo::Kind::kAliasOfMemory:
        absl::StrAppend(&out, "  view of memory ", o.memory.value(), ": ", smelt::ToString(o.geometry), "\n");
        break;
      case OutputInfo::Kind::kAliasOfIntermediate:
        absl::StrAppend(&out, "  view of graph output ", o.contents.value(), ": ", smelt::ToString(o.geometry), "\n");
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
