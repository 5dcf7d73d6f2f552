// Describes a bundle, as JSON (docs/json.md) and for people. Reads only the metadata, which LoadBundle has checked;
// needs no compiler.
#ifndef SMELT_TOOLS_INSPECT_BUNDLE_H_
#define SMELT_TOOLS_INSPECT_BUNDLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"

namespace smelt {

// Returns the output of `smelt inspect --json`; kResourceExhausted for a bundle of a few bytes that takes gigabytes to
// describe.
absl::StatusOr<nlohmann::ordered_json> DescribeBundle(const fb::BundleT& bundle, const Container& file);
// Returns the description with one of the bundle's methods in place of all: that of a bundle with one method.
nlohmann::ordered_json DescriptionOfMethod(const nlohmann::ordered_json& description, const std::string& method);
// Returns for which calls a plan is, given the descriptions of the plan and of the model's arguments: "distinct
// arguments", "one tensor as x and y".
std::string CallsOfPlan(const nlohmann::ordered_json& arguments, const nlohmann::ordered_json& plan);
// Returns whose memory a result has: "a view of the argument x"; "" if it is new, or nothing is known.
std::string MemoryOfResult(const nlohmann::ordered_json& arguments, const nlohmann::ordered_json& states,
                           const nlohmann::ordered_json& result);
// Returns such a description for people, one line per part.
std::string DescriptionText(const nlohmann::ordered_json& description);

}  // namespace smelt

#endif  // SMELT_TOOLS_INSPECT_BUNDLE_H_
