// What is in a bundle, as JSON (docs/json.md) and for people. Reads the metadata only, which LoadBundle has checked;
// needs no compiler.
#ifndef SMELT_TOOLS_INSPECT_BUNDLE_H_
#define SMELT_TOOLS_INSPECT_BUNDLE_H_

#include "nlohmann/json.hpp"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"

namespace smelt {

// What `smelt inspect --json` prints.
nlohmann::ordered_json DescribeBundle(const fb::BundleT& bundle, const Container& file);
// Prints such a description on standard output, a line a part.
void PrintDescription(const nlohmann::ordered_json& description);

}  // namespace smelt

#endif  // SMELT_TOOLS_INSPECT_BUNDLE_H_
